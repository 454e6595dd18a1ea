"""The call device, and construction-time tensors placed on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from tileops._core.devices import current_device, made_to_last, normal_form
from tileops._core.lang.values import shown_with_type
from tileops._core.runtime.construction import Form
from tileops._core.runtime.failures import Faults
from tileops._core.runtime.tensors import DTYPES, described_as, unusual
from tileops._core.runtime.tracing import is_traced
from tileops.errors import SignatureTypeError


class Conflict:
    """Stands for a call device on which the tensors do not agree."""


CONFLICT: Final = Conflict()


def call_device(
    moving: Sequence[torch.Tensor | None],
    param: torch.device | str | None,
    held: Sequence[torch.Tensor | None],
) -> torch.device | Conflict | None:
    """The call device, or `CONFLICT`.

    Args:
        moving: the call-time tensors not bound to the CPU.
        param: the parameter named `device`.
        held: the construction-time tensors not bound to the CPU.
    """
    found = _common(moving)
    if found is None and param is not None:
        return normal_form(param)
    if found is None:
        found = _common(held)
    return current_device() if found is None else found


def _common(tensors: Sequence[torch.Tensor | None]) -> torch.device | Conflict | None:
    found: torch.device | None = None
    for tensor in tensors:
        if tensor is None:
            continue
        if found is None:
            found = tensor.device
        elif tensor.device != found:
            return CONFLICT
    return found


class DeviceCopies(dict[torch.device, torch.Tensor]):
    """The copies of one construction-time tensor by device, and the tensor they were made from.

    Args:
        source: the tensor as the attribute was bound.
    """

    __slots__ = ("source",)

    def __init__(self, source: torch.Tensor) -> None:
        super().__init__()
        self.source = source

    def __copy__(self) -> DeviceCopies:
        """The same copies, in one step that no thread sees half done."""
        twin = DeviceCopies(self.source)
        twin.update(self)
        return twin

    def knows(self, tensor: object) -> bool:
        """Whether a tensor is the source or one of the copies."""
        return tensor is self.source or any(tensor is copy for copy in list(self.values()))

    def origin(self, tensor: Any) -> Any:
        """What a tensor was copied from; any other as it is."""
        return self.source if self.knows(tensor) else tensor


def as_bound(op: Any, name: str) -> Any:
    """A construction-time tensor as it was bound, whatever calls have put in its place."""
    tensor = getattr(op, name, None)
    copies: DeviceCopies | None = op._placed_tensors.get(name)
    return tensor if copies is None else copies.origin(tensor)


def held(faults: Faults, op: Any, name: str) -> torch.Tensor | None:
    """A construction-time tensor, which may have been bound anew since it was checked.

    Raises:
        SignatureError: what is bound now has not the form that construction relied on.
    """
    tensor: Any = getattr(op, name, None)
    form = op._construction_indices.forms[name]
    if form is None:
        if tensor is not None:
            raise faults.held(name, "bound anew, but it was absent at construction")
        return None
    if not isinstance(tensor, torch.Tensor):
        got = shown_with_type(tensor)
        raise faults.held(name, f"bound anew, expected a tensor, got {got}", SignatureTypeError)
    fault = unusual(tensor) or _misfit(faults.plan.spec.signature.params[name], tensor, form)
    if fault is not None:
        raise faults.held(name, f"bound anew, {fault}")
    return tensor


def _misfit(declared: Any, tensor: torch.Tensor, form: Form) -> str | None:
    """In what a tensor differs from the one that was checked, or None."""
    shape, dtype = described_as(tensor)
    if shape != form[0]:
        return f"expected shape {form[0]}, got {shape}"
    if declared.contiguous and not tensor.is_contiguous():
        return f"expected a contiguous tensor, got strides {tuple(tensor.stride())}"
    if declared.on_cpu and tensor.device.type != "cpu":
        return f"expected cpu, got {tensor.device}"
    if dtype != form[1] and (declared.on_cpu or _sort(tensor.dtype) != _sort(DTYPES[str(form[1])])):
        return f"expected {form[1]}, got {dtype}"
    return None


def _sort(dtype: torch.dtype) -> str:
    """The sort of numbers that a dtype holds; another sort would mean something else."""
    if dtype is torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "floating" if dtype.is_floating_point else "integer"


def requires_grad(op: Any, name: str) -> bool:
    """Whether a construction-time tensor, or the one it is a copy of, requires grad."""
    tensor = as_bound(op, name)
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad


def placed(
    faults: Faults, op: Any, name: str, device: torch.device | None, dtype: str
) -> torch.Tensor:
    """A construction-time tensor on the call device in its signature dtype.

    The attribute then holds it. Copies are made from the tensor as it was bound, so that going
    through a narrow dtype loses nothing; binding the attribute anew discards them. Under tracing
    the attribute is used as it is.

    Raises:
        SignatureError: the tensor has no contents that could be moved.
    """
    tensor: torch.Tensor = getattr(op, name)
    wanted = DTYPES[dtype]
    if device is None or is_traced():
        return tensor
    copies: DeviceCopies | None = op._placed_tensors.get(name)
    if copies is None or not copies.knows(tensor):
        copies = op._placed_tensors[name] = DeviceCopies(tensor)
    found = copies.get(device)
    if found is None or found.dtype is not wanted:
        if copies.source.is_meta and device.type != "meta":
            raise faults.held(name, f"a meta tensor has no contents to move to {device}")
        source = copies.source
        (found,) = made_to_last(device, lambda: [source.to(device=device, dtype=wanted)])
        copies[device] = found
    if found is not tensor:
        setattr(op, name, found)
    return found
