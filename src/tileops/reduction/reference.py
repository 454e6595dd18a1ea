"""References of the reduction family: float64 from the inputs as cast, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Axes = int | Sequence[int] | None


def _axes(dim: Axes, rank: int) -> tuple[int, ...]:
    """The reduced axes; None and no axis mean all of them."""
    if rank == 0 or dim is None:
        return tuple(range(rank))
    return tuple([dim] if isinstance(dim, int) else dim) or tuple(range(rank))


def _rows(x: Tensor, dim: Axes, dtype: torch.dtype | None) -> tuple[Tensor, torch.dtype]:
    """`x` cast to the result's dtype, in float64, with the reduced axes flattened at the end."""
    dtype = dtype or x.dtype
    axes = _axes(dim, x.dim())
    kept = [axis for axis in range(x.dim()) if axis not in {a % x.dim() for a in axes}]
    length = 1
    for axis in axes:
        length *= x.shape[axis]
    shape = [x.shape[axis] for axis in kept]
    wide = x.to(dtype).double().permute((*kept, *axes))
    return wide.reshape(*shape, length), dtype


def _kept(result: Tensor, x: Tensor, dim: Axes, keepdim: bool) -> Tensor:
    """`result` with length 1 on the reduced axes when asked for."""
    if not keepdim:
        return result
    reduced = {axis % max(x.dim(), 1) for axis in _axes(dim, x.dim())}
    return result.reshape([1 if i in reduced else n for i, n in enumerate(x.shape)])


def sum(
    x: Tensor, *, dim: Axes = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """Sum over the axes."""
    rows, dtype = _rows(x, dim, dtype)
    return _kept(rows.sum(-1).to(dtype), x, dim, keepdim)


def mean(
    x: Tensor, *, dim: Axes = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """Sum over the axes by their number of elements; NaN when there are none."""
    rows, dtype = _rows(x, dim, dtype)
    return _kept((rows.sum(-1) / rows.shape[-1]).to(dtype), x, dim, keepdim)


def amax(x: Tensor, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Maximum over the axes."""
    rows, dtype = _rows(x, dim, None)
    return _kept(rows.max(-1).values.to(dtype), x, dim, keepdim)


def vector_norm(
    x: Tensor,
    *,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """`sum(|x|)`, `sqrt(sum(x²))` or `max(|x|)`."""
    rows, dtype = _rows(x, dim, dtype)
    if ord == 1:
        norm = rows.abs().sum(-1)
    elif ord == 2:
        norm = rows.square().sum(-1).sqrt()
    else:
        norm = rows.abs().max(-1).values
    return _kept(norm.to(dtype), x, dim, keepdim)


def softmax(x: Tensor, *, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """`exp(x - max) / sum(exp(x - max))` along the axis."""
    dtype = dtype or x.dtype
    axis = dim if dim is not None else 0 if x.dim() in (0, 1, 3) else 1
    wide = x.to(dtype).double()
    if x.numel() == 0:
        return wide.to(dtype)
    power = torch.exp(wide - wide.amax(axis, keepdim=True))
    return (power / power.sum(axis, keepdim=True)).to(dtype)
