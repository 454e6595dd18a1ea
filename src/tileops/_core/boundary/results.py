"""Results that need no implementation: fresh tensors from a record, and the caller's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall
    from tileops._core.signature.plan import EffectBranch
    from tileops._core.spec.model import OpSpec, TensorOutput


def writes_nothing(record: SignatureCall) -> bool:
    """Whether the call writes some tensor and every tensor it writes has no elements."""
    return record.facts.writes_nothing


def fresh_output(record: SignatureCall, name: str) -> torch.Tensor:
    """A new contiguous tensor of the output's checked shape and dtype on the call device."""
    shape, dtype = record.facts.tensors[name]
    return torch.empty(shape, dtype=getattr(torch, dtype), device=record.device)


def callers_tensor(
    effect: EffectBranch, output: TensorOutput, tensors: Mapping[str, Any]
) -> torch.Tensor | None:
    """The caller's tensor that the output is on this branch, or None."""
    own: torch.Tensor | None = None
    if output.name in effect.emits:
        if output.buffered and effect.has_out:
            own = tensors["out"]
        elif output.alias in effect.writes:
            own = tensors[output.alias]
    return own


def empty_result(record: SignatureCall, spec: OpSpec, tensors: Mapping[str, Any]) -> Any:
    """The result of a call that writes no element."""
    values = []
    for name, output in spec.signature.outputs.items():
        own = callers_tensor(record.facts.branch.effect, output, tensors)
        if own is None and record.present(name):
            own = fresh_output(record, name)
        values.append(own)
    return assembled(values)


def adopt_callers_tensors(
    result: Any, effect: EffectBranch, spec: OpSpec, tensors: Mapping[str, Any]
) -> Any:
    """A target's result with the caller's tensors put where it returned None for them."""
    outputs = tuple(spec.signature.outputs.values())
    own = [callers_tensor(effect, output, tensors) for output in outputs]
    if not any(tensor is not None for tensor in own):
        return result
    if len(outputs) == 1:
        return own[0] if result is None else result
    values = [None] * len(outputs) if result is None else result
    if not isinstance(values, (tuple, list)) or len(values) != len(outputs):
        return result
    return tuple(mine if value is None else value for mine, value in zip(own, values, strict=True))


def assembled(values: list[Any]) -> Any:
    """Output values in declaration order as a call returns them."""
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)
