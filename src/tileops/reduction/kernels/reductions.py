"""Interfaces of reductions over axes and their plain-torch implementations.

Ops pass axes normalised and in order, never None.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import log, prod

import torch
from torch import Tensor

from tileops._kernels.pieces import piece_length, widened
from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.reduction.kernels.layout import ColumnLayout, RowLayout


@dataclass(frozen=True)
class ReductionCall(CallSpec):
    """A reduction over some axes of one tensor.

    Args:
        function: `"all"`, `"amax"`, `"amin"`, `"any"`, `"argmax"`, `"argmin"`, `"count_nonzero"`,
            `"logsumexp"`, `"mean"`, `"norm"`, `"prod"`, `"std"`, `"sum"`, `"var"` or `"var_mean"`.
        rank: number of axes of the input.
        axes: the reduced axes, non-negative and ascending; empty for rank 0 and, for `"all"` and
            `"any"`, where nothing is reduced.
        keepdim: whether reduced axes stay with length 1.
        dtype: element type of the input.
        out_dtype: element type of the result, to which the input is cast before it is reduced.
        ord: order of the norm: 1, 2 or infinity; None for other functions.
        correction: subtracted from the number of elements in the divisor of a variance or
            standard deviation, None for 1.
        layout: how the reduced elements lie, on an accelerator; None where no program serves them.
    """

    function: str
    rank: int
    axes: tuple[int, ...]
    keepdim: bool
    dtype: torch.dtype
    out_dtype: torch.dtype
    ord: float | None = None
    correction: float | None = None
    layout: RowLayout | ColumnLayout | None = None


class ReductionFwdInterface(KernelInterface):
    """One value for all elements that agree on the axes which are not reduced."""

    request = ReductionCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Reduce `x` over `call.axes`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.
                A reduced axis may be empty except for `"amax"`, `"amin"`, `"argmax"`, `"argmin"`
                and the norm of order infinity.

        Returns:
            A new contiguous tensor in `call.out_dtype`, without the reduced axes or, with
            `call.keepdim`, with length 1 there. Accumulation is float32, rounded once. NaN wins in
            the extremes; of equal extremes `"argmax"` and `"argmin"` give the first place along
            the axis, or in the flattened input where they reduce all axes. A variance is of
            centred values, and NaN where `call.correction` leaves no positive divisor.
        """


class VarMeanFwdInterface(KernelInterface):
    """Variance and mean of all elements that agree on the axes which are not reduced."""

    request = ReductionCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce `x` over `call.axes`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            `(var, mean)`, each as the reductions of these names give it.
        """


class ReductionPortableKernel(PortableKernel[ReductionCall], ReductionFwdInterface):
    """Reductions by torch, which accumulates half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        return FUNCTIONS[self.call.function](x, self.call).contiguous()


class VarMeanPortableKernel(PortableKernel[ReductionCall], VarMeanFwdInterface):
    """Variance and mean by torch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce over the axes of the call spec."""
        call = self.call
        if not _is_spread(x, call):
            mean = torch.mean(x, call.axes, call.keepdim)
            return torch.full_like(mean, torch.nan), mean
        return torch.var_mean(x, call.axes, correction=call.correction, keepdim=call.keepdim)


def _in_float32(function: Callable[[Tensor], Tensor], x: Tensor, call: ReductionCall) -> Tensor:
    """A reduction of a half type by one that keeps axes, of pieces and of what becomes of them."""
    axes = call.axes or (0,)
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    axis = max(kept or axes, key=lambda axis: x.shape[axis])
    pieces = widened(x, axis, piece_length(x, axis))
    reduced = torch.cat([function(piece) for piece in pieces], axis)
    if not kept:
        reduced = function(reduced)
    return (reduced if call.keepdim else reduced.squeeze(axes)).to(call.out_dtype)


def _prod(x: Tensor, call: ReductionCall) -> Tensor:
    """The product along one axis, of half types in float32."""
    (axis,) = call.axes or (0,)
    x = x.to(call.out_dtype)
    if x.dtype.itemsize == 2 and x.dim():
        return _in_float32(lambda piece: torch.prod(piece, axis, True), x, call)
    return torch.prod(x, axis, call.keepdim)


def _logsumexp(x: Tensor, call: ReductionCall) -> Tensor:
    """Half types need float32 here: their sum of exponentials overflows where the result fits."""
    axes = call.axes or (0,)
    if x.dtype.itemsize == 2 and x.dim() and x.numel():
        return _in_float32(partial(_log_of_sum, axes=axes), x, call)
    return torch.logsumexp(x, axes, call.keepdim)


def _log_of_sum(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The logarithm of the sum of exponentials, axes kept; overwrites `x`.

    By powers of two: those of e are a library's in float32, and slow on some CPUs.
    """
    top = x.amax(axes, True)
    top.masked_fill_(top.isinf(), 0)
    return x.sub_(top).mul_(1 / log(2)).exp2_().sum(axes, True).log_().add_(top)


def _place(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """The place of an extreme, in the flattened input where all of several axes are reduced."""

    def place(x: Tensor, call: ReductionCall) -> Tensor:
        if len(call.axes) == 1:
            return function(x, call.axes[0], call.keepdim)
        return function(x).reshape([1] * call.rank if call.keepdim else [])

    return place


def _truth(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """A reduction of truths, or the truths themselves where no axis is reduced."""

    def truth(x: Tensor, call: ReductionCall) -> Tensor:
        if not call.axes:
            return x != 0
        if len(call.axes) < call.rank:
            return function(x, call.axes, call.keepdim)
        return function(x).reshape([1] * call.rank if call.keepdim else [])  # faster than by axes

    return truth


def _is_spread(x: Tensor, call: ReductionCall) -> bool:
    """Whether the divisor of the variance is positive; torch warns where it is not."""
    correction = 1 if call.correction is None else call.correction
    return prod(x.shape[axis] for axis in call.axes) > correction


def _spread(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """A variance or standard deviation; NaN without degrees of freedom."""

    def spread(x: Tensor, call: ReductionCall) -> Tensor:
        if _is_spread(x, call):
            return function(x, call.axes, correction=call.correction, keepdim=call.keepdim)
        return torch.full_like(torch.mean(x, call.axes, call.keepdim), torch.nan)

    return spread


def _count_nonzero(x: Tensor, call: ReductionCall) -> Tensor:
    """The number, which torch counts faster where it is of the whole input."""
    return torch.count_nonzero(x, call.axes if len(call.axes) < call.rank else None)


def _norm(x: Tensor, call: ReductionCall) -> Tensor:
    """The vector norm; the input is cast only where its dtype is not the result's."""
    ord = 2 if call.ord is None else call.ord
    norm: Tensor = torch.linalg.vector_norm(x, ord, call.axes, call.keepdim, dtype=call.out_dtype)
    return norm


FUNCTIONS: Mapping[str, Callable[[Tensor, ReductionCall], Tensor]] = {
    "all": _truth(torch.all),
    "amax": lambda x, call: torch.amax(x, call.axes, call.keepdim),
    "amin": lambda x, call: torch.amin(x, call.axes, call.keepdim),
    "any": _truth(torch.any),
    "argmax": _place(torch.argmax),
    "argmin": _place(torch.argmin),
    "count_nonzero": _count_nonzero,
    "logsumexp": _logsumexp,
    "mean": lambda x, call: torch.mean(x, call.axes, call.keepdim, dtype=call.out_dtype),
    "norm": _norm,
    "prod": _prod,
    "std": _spread(torch.std),
    "sum": lambda x, call: torch.sum(x, call.axes, call.keepdim, dtype=call.out_dtype),
    "var": _spread(torch.var),
}

"""Torch's version of each function, by the name that call specs use."""
