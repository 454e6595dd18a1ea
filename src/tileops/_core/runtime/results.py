"""Checks of what an implementation returned, against the record of its call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tileops._core.runtime.failures import Faults
from tileops._core.runtime.record import SignatureCall
from tileops._core.runtime.tensors import DTYPES, is_ordinary, name_of_dtype, share_storage, unusual


def check_nothing(faults: Faults, result: Any) -> None:
    """Demand None where the signature has no outputs."""
    if result is not None:
        raise faults.result("outputs", f"nothing is declared, got {_kind(result)}")


def returned(faults: Faults, record: SignatureCall, result: Any) -> tuple[Any, ...]:
    """The values of the declared outputs: as many as there are, absent where absent."""
    outputs = faults.plan.spec.signature.outputs
    if len(outputs) == 1:
        values: tuple[Any, ...] = (result,)
    elif isinstance(result, tuple | list) and len(result) == len(outputs):
        values = tuple(result)
    else:
        raise faults.result("outputs", f"expected {len(outputs)} results, got {_count(result)}")
    for name, value in zip(outputs, values, strict=True):
        if record.present(name):
            if not isinstance(value, torch.Tensor):
                raise faults.result_type(
                    f"outputs.{name}", f"expected a tensor, got {_kind(value)}"
                )
            strange = None if is_ordinary(value) else unusual(value)
            if strange is not None:
                raise faults.result(f"outputs.{name}", strange)
        elif value is not None:
            raise faults.unwanted(name, f"the output is absent, got {_kind(value)}")
    return values


def check_identity(faults: Faults, name: str, value: torch.Tensor, passed: torch.Tensor) -> None:
    """Demand that an output be the very tensor that was passed."""
    if value is passed or value is None:
        return
    output = faults.plan.spec.signature.outputs[name]
    source = "out" if output.buffered else output.alias
    key = "buffer" if output.buffered else "alias"
    fault = f"expected the passed tensor {source} itself, got another tensor"
    raise faults.result(f"outputs.{name}.{key}", fault, text=source)


def check_output(faults: Faults, record: SignatureCall, name: str, value: torch.Tensor) -> None:
    """Demand the inferred shape, dtype and device, and a contiguous layout where promised."""
    shape, dtype = record.facts.tensors[name]
    device = record.facts.device
    if value.shape != shape:
        raise _returned(faults, name, "shape", tuple(value.shape), shape)
    if value.dtype is not DTYPES[dtype]:
        raise _returned(faults, name, "dtype", name_of_dtype(value.dtype), dtype)
    if device is not None and value.device != device:
        raise _returned(faults, name, "device", value.device, device)
    output = faults.plan.spec.signature.outputs[name]
    if not value.is_contiguous() and (output.contiguous or name in record.facts.branch.allocated):
        actual = f"a tensor of shape {shape} with strides {tuple(value.stride())}"
        raise _returned(faults, name, "contiguous", actual, "a contiguous one")


def check_new(
    faults: Faults,
    record: SignatureCall,
    values: Mapping[str, torch.Tensor | None],
    tensors: Mapping[str, torch.Tensor | None],
    held: Mapping[str, torch.Tensor | None],
) -> None:
    """Demand that every new output be a plain tensor that shares no storage with anything else."""
    allocated = record.facts.branch.allocated
    others = {**held, **tensors}
    for name, value in values.items():
        if value is None:
            continue
        if name in allocated:
            passed = [tensor for tensor in others.values() if tensor is not None]
            fault = _strangeness(value, passed, faults.plan.spec.has_boundary)
            fault = fault or (None if faults.target is None else _lateness(value))
            if fault is not None:
                raise faults.result(f"outputs.{name}", fault)
            for other, tensor in others.items():
                if tensor is not None and share_storage(value, tensor):
                    fault = f"expected storage of its own, got a tensor that shares it with {other}"
                    raise faults.result(f"outputs.{name}", fault)
        others[name] = value


def _strangeness(value: torch.Tensor, passed: Sequence[torch.Tensor], bounded: bool) -> str | None:
    """What a new tensor is beyond a plain one, unless the passed tensors explain it."""
    kind = type(value)
    if kind is not Tensor and not any(isinstance(tensor, kind) for tensor in passed):
        return f"expected a plain tensor, got a {kind.__name__}"
    if value.requires_grad and (bounded or not any(tensor.requires_grad for tensor in passed)):
        return "expected a tensor without a gradient, got one that requires grad"
    return None


def _lateness(value: torch.Tensor) -> str | None:
    """What a new tensor still demands of its users: to resolve it, or a mode to use it in."""
    if value.is_conj() or value.is_neg():
        lazy = "conjugated" if value.is_conj() else "negated"
        return f"expected its values, got a lazily {lazy} tensor"
    if value.is_inference() and not torch.is_inference_mode_enabled():
        return "expected an ordinary tensor, got one of inference mode"
    return None


def _returned(
    faults: Faults, name: str, aspect: str, actual: object, expected: object
) -> Exception:
    fault = f"the implementation returned {actual}, expected {expected}"
    return faults.output(name, aspect, fault)


def _count(result: Any) -> str:
    if isinstance(result, tuple | list):
        return str(len(result))
    return _kind(result)


def _kind(value: object) -> str:
    """What came, in words; an operator has made tuples of lists, so that neither is told."""
    if isinstance(value, tuple | list):
        return f"a sequence of {len(value)}"
    return "None" if value is None else type(value).__name__
