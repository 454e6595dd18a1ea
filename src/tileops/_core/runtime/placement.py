"""The call device, and construction-time tensors placed on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from tileops._core.devices import current_device, normal_form
from tileops._core.runtime.tensors import DTYPES
from tileops._core.runtime.tracing import is_traced


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


class Copies(dict[torch.device, torch.Tensor]):
    """The copies of one construction-time tensor by device, and the tensor they were made from.

    Args:
        source: the tensor as the attribute was bound.
    """

    __slots__ = ("source",)

    def __init__(self, source: torch.Tensor) -> None:
        super().__init__()
        self.source = source

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is the source or one of the copies."""
        return tensor is self.source or any(tensor is copy for copy in self.values())


def placed(op: Any, name: str, device: torch.device | None, dtype: str) -> torch.Tensor:
    """A construction-time tensor on the call device in its signature dtype.

    The attribute then holds it. Copies are made from the tensor as it was bound, so that going
    through a narrow dtype loses nothing; binding the attribute anew discards them. Under tracing
    the attribute is used as it is.
    """
    tensor: torch.Tensor = getattr(op, name)
    wanted = DTYPES[dtype]
    if device is None or is_traced():
        return tensor
    copies: Copies | None = op._placed_tensors.get(name)
    if copies is None or not copies.knows(tensor):
        copies = op._placed_tensors[name] = Copies(tensor)
    found = copies.get(device)
    if found is None or found.dtype is not wanted:
        found = copies[device] = copies.source.to(device=device, dtype=wanted)
    if found is not tensor:
        setattr(op, name, found)
    return found
