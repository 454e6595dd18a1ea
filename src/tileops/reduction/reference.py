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


def prod(x: Tensor, *, dim: int, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """Product along the axis."""
    rows, dtype = _rows(x, dim, dtype)
    return _kept(rows.prod(-1).to(dtype), x, dim, keepdim)


def log_sum_exp(x: Tensor, *, dim: Axes, keepdim: bool = False) -> Tensor:
    """`log(sum(exp(x)))` over the axes."""
    rows, dtype = _rows(x, dim, None)
    return _kept(torch.logsumexp(rows, -1).to(dtype), x, dim, keepdim)


def amax(x: Tensor, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Maximum over the axes."""
    rows, dtype = _rows(x, dim, None)
    return _kept(rows.max(-1).values.to(dtype), x, dim, keepdim)


def amin(x: Tensor, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Minimum over the axes."""
    return -amax(-x, dim=dim, keepdim=keepdim)


def argmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first place of NaN, or else of the maximum, along the axis."""
    rows, _ = _rows(x, dim, None)
    best = (rows == rows.amax(-1, keepdim=True)) | rows.isnan()
    return _kept(best.to(torch.uint8).argmax(-1), x, dim, keepdim)


def argmin(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first place of NaN, or else of the minimum, along the axis."""
    return argmax(-x, dim=dim, keepdim=keepdim)


def var(
    x: Tensor, *, dim: Axes = None, correction: float | None = 1, keepdim: bool = False
) -> Tensor:
    """Mean square of the centred values, the divisor less the correction."""
    rows, dtype = _rows(x, dim, None)
    return _kept(_variance(rows, correction).to(dtype), x, dim, keepdim)


def std(
    x: Tensor, *, dim: Axes = None, correction: float | None = 1, keepdim: bool = False
) -> Tensor:
    """Square root of the variance."""
    rows, dtype = _rows(x, dim, None)
    return _kept(_variance(rows, correction).sqrt().to(dtype), x, dim, keepdim)


def var_mean(
    x: Tensor, *, dim: Axes = None, correction: float | None = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    spread = var(x, dim=dim, correction=correction, keepdim=keepdim)
    return spread, mean(x, dim=dim, keepdim=keepdim)


def _variance(rows: Tensor, correction: float | None) -> Tensor:
    """Of the last axis; NaN where the divisor is not positive."""
    divisor = rows.shape[-1] - (1 if correction is None else correction)
    square = (rows - rows.sum(-1, keepdim=True) / rows.shape[-1]).square().sum(-1)
    return square / divisor if divisor > 0 else torch.full_like(square, torch.nan)


def all(x: Tensor, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether no element is zero."""
    return ~any(x == 0, dim=dim, keepdim=keepdim)


def any(x: Tensor, *, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether some element is nonzero."""
    if dim in ([], ()):
        return x != 0
    return _kept(_counts(x, dim) > 0, x, dim, keepdim)


def count_nonzero(x: Tensor, *, dim: Axes = None) -> Tensor:
    """Number of nonzero elements over the axes."""
    return _counts(x, dim)


def _counts(x: Tensor, dim: Axes) -> Tensor:
    """Number of nonzero elements, without the axes."""
    rows, _ = _rows(x != 0, dim, None)
    return rows.sum(-1).long()


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


def log_softmax(x: Tensor, *, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """`x - log(sum(exp(x)))` along the axis."""
    dtype = dtype or x.dtype
    axis = dim if dim is not None else 0 if x.dim() in (0, 1, 3) else 1
    wide = x.to(dtype).double()
    return (wide - torch.logsumexp(wide, axis, keepdim=True)).to(dtype)


def softmax_bwd(grad_out: Tensor, output: Tensor, *, dim: int | None = None) -> Tensor:
    """`output * (grad_out - sum(grad_out * output))`."""
    axis = dim if dim is not None else 0 if output.dim() in (0, 1, 3) else 1
    grad, y = grad_out.double(), output.double()
    return (y * (grad - (grad * y).sum(axis, keepdim=True))).to(output.dtype)


def log_softmax_bwd(grad_out: Tensor, output: Tensor, *, dim: int | None = None) -> Tensor:
    """`grad_out - exp(output) * sum(grad_out)`."""
    axis = dim if dim is not None else 0 if output.dim() in (0, 1, 3) else 1
    grad = grad_out.double()
    return (grad - output.double().exp() * grad.sum(axis, keepdim=True)).to(output.dtype)


def cumsum(x: Tensor, *, dim: int = -1) -> Tensor:
    """Sum of all elements up to each."""
    return torch.cumsum(x.double(), dim).to(x.dtype)


def cumprod(x: Tensor, *, dim: int = -1) -> Tensor:
    """Product of all elements up to each."""
    return torch.cumprod(x.double(), dim).to(x.dtype)
