"""What injected objects answer, judged before a layer relies on it.

Errors name the layer, the object's class and what it returned; what an object raises passes with a
note. Extents are not compared while a compiler traces, which may not know them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileops._core.notes import add_note
from tileops._core.runtime.tracing import is_compiled
from tileops.moe.types import (
    FusedMoEExpertsModular,
    FusedMoEPrepareAndFinalize,
    PrepareResult,
    WeightedReduce,
)

__all__ = ["finalize", "prepare", "reduction", "rows"]


def prepare(
    layer: str,
    exchange: FusedMoEPrepareAndFinalize,
    hidden: Tensor,
    weights: Tensor,
    ids: Tensor,
    experts: int,
) -> PrepareResult:
    """The tokens that the exchange hands out.

    Raises:
        TypeError: it hands out something else.
        ValueError: a tensor has another shape, dtype or device than it must have.
    """
    found = _asked(layer, exchange, "prepare", hidden, weights, ids, experts)
    place = f"{layer}: {type(exchange).__name__}.prepare"
    if not isinstance(found, PrepareResult):
        raise TypeError(f"{place} returned {_kind(found)}, expected a PrepareResult")
    tensors = {"hidden_q": found.hidden_q, "topk_weights": found.topk_weights}
    tensors["topk_ids"] = found.topk_ids
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{place} returned {_kind(tensor)} as {name}, expected a tensor")
    if not (found.scale is None or isinstance(found.scale, Tensor)):
        raise TypeError(
            f"{place} returned {_kind(found.scale)} as scale, expected a tensor or None"
        )
    for name, tensor in tensors.items():
        _check_form(f"{place} returned {name}", tensor, hidden.device, _DTYPES.get(name))
    if not is_compiled():
        _check_extents(place, tensors, hidden.shape[1])
    return found


def reduction(layer: str, experts: FusedMoEExpertsModular) -> WeightedReduce:
    """How the rows of the experts are reduced.

    Raises:
        TypeError: the experts give no reduction.
    """
    found = _asked(layer, experts, "make_weighted_reduce")
    if not isinstance(found, WeightedReduce):
        raise TypeError(
            f"{layer}: {type(experts).__name__}.make_weighted_reduce returned {_kind(found)}, "
            "expected a WeightedReduce"
        )
    return found


def rows(
    layer: str, experts: FusedMoEExpertsModular, tokens: int, routes: int, hidden: int
) -> tuple[int, int]:
    """The shape of what the experts write: a row for each token, or for each of its routes.

    Raises:
        TypeError: the experts give no pair.
        ValueError: the experts give another shape.
    """
    found = _asked(layer, experts, "output_shape", tokens, hidden)
    place = f"{layer}: {type(experts).__name__}.output_shape returned"
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise TypeError(f"{place} {found!r}, expected two lengths")
    shape = tuple(found)
    wanted = (tokens, hidden), (tokens * routes, hidden)
    if not is_compiled() and shape not in wanted:
        raise ValueError(f"{place} {shape}, expected {wanted[0]} or {wanted[1]}")
    return shape


def finalize(
    layer: str, exchange: FusedMoEPrepareAndFinalize, output: Tensor, *prepared: Any
) -> None:
    """Have the exchange fill `output`.

    Raises:
        TypeError: it returns something, which `output` may then lack.
    """
    found = _asked(layer, exchange, "finalize", output, *prepared)
    if found is not None:
        raise TypeError(
            f"{layer}: {type(exchange).__name__}.finalize returned {_kind(found)}, expected None: "
            "it fills output"
        )


_DTYPES = {"topk_weights": torch.float32, "topk_ids": torch.int32}


def _asked(layer: str, part: object, method: str, *arguments: Any) -> Any:
    """What a method of an injected object answers; what it raises gets a note."""
    try:
        return getattr(part, method)(*arguments)
    except Exception as error:
        add_note(error, f"in {type(part).__name__}.{method}, which {layer} called")
        raise


def _check_form(what: str, tensor: Tensor, device: torch.device, dtype: torch.dtype | None) -> None:
    if tensor.device != device:
        raise ValueError(f"{what} on {tensor.device}, expected {device}")
    if dtype is not None and tensor.dtype is not dtype:
        raise ValueError(f"{what} of {tensor.dtype}, expected {dtype}")
    if tensor.dim() != 2:
        raise ValueError(f"{what} of shape {tuple(tensor.shape)}, expected a matrix")


def _check_extents(place: str, tensors: dict[str, Tensor], hidden: int) -> None:
    """Every tensor has a row for each token; the widths are those of the layer."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    (tokens, width), weights, ids = shapes.values()
    if width == hidden and weights == ids and weights[0] == tokens:
        return
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise ValueError(f"{place} returned {listed}; expected (T, {hidden}) and twice (T, K)")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
