"""Results that need no implementation: new tensors made from a record, and the caller's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall
    from tileops._core.signature.plan import EffectBranch
    from tileops._core.spec.model import OpSpec


def writes_nothing(record: SignatureCall) -> bool:
    """Whether the call writes some tensor and every tensor it writes has no elements."""
    return record.facts.writes_nothing


def fresh_output(record: SignatureCall, name: str) -> torch.Tensor:
    """A new contiguous tensor of the output's checked shape and dtype on the call device."""
    shape, dtype = record.facts.tensors[name]
    return torch.empty(shape, dtype=getattr(torch, dtype), device=record.device)


def _callers_tensors(
    effect: EffectBranch, spec: OpSpec, tensors: Mapping[str, Any]
) -> list[torch.Tensor | None]:
    """For each output the caller's tensor that it is, None for any other."""
    names = map(effect.callers_tensor, spec.signature.outputs.values())
    return [None if name is None else tensors[name] for name in names]


def empty_result(record: SignatureCall, spec: OpSpec, tensors: Mapping[str, Any]) -> Any:
    """The result of a call that writes no element."""
    values = _callers_tensors(record.facts.branch.effect, spec, tensors)
    for place, name in enumerate(spec.signature.outputs):
        if values[place] is None and record.present(name):
            values[place] = fresh_output(record, name)
    return assembled(values)


def adopt_callers_tensors(
    result: Any, effect: EffectBranch, spec: OpSpec, tensors: Mapping[str, Any]
) -> Any:
    """A target's result with the caller's tensors put where it returned None for them.

    What stands for a single output may come in a sequence, as that of several does.
    """
    if len(spec.signature.outputs) == 1 and isinstance(result, (tuple, list)) and len(result) == 1:
        result = result[0]
    own = _callers_tensors(effect, spec, tensors)
    if not any(tensor is not None for tensor in own):
        return result
    if len(own) == 1:
        return own[0] if result is None else result
    values = [None] * len(own) if result is None else result
    if not isinstance(values, (tuple, list)) or len(values) != len(own):
        return result
    return tuple(mine if value is None else value for mine, value in zip(own, values, strict=True))


def assembled(values: list[Any]) -> Any:
    """Output values in declaration order as a call returns them."""
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)
