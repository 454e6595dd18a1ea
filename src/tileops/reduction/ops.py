"""Reductions: an op names its function, the bases normalise axes and build the call spec.

Accumulation is float32 for every dtype and rounded once. With `dtype`, the input is cast before it
is reduced and the result has that dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.reduction.kernels import (
    ReductionCall,
    ReductionFwdInterface,
    ReductionPortableKernel,
    SoftmaxCall,
    SoftmaxFwdInterface,
    SoftmaxPortableKernel,
)

__all__ = ["SoftmaxFwdOp", "SumFwdOp", "MeanFwdOp", "AmaxFwdOp", "VectorNormFwdOp"]

Axes = int | Sequence[int] | None
"""One axis, several, or all of them (None)."""


def _normalised(dim: Axes, rank: int) -> tuple[int, ...]:
    """The axes of `dim`, non-negative and ascending; None and no axis mean all of them."""
    if rank == 0 or dim is None or dim == () or dim == []:
        return tuple(range(rank))
    return tuple(sorted(axis % rank for axis in ([dim] if isinstance(dim, int) else dim)))


class _ReductionOp(Op):
    """Reduces with `function` over the axes `dim`."""

    kernel_types = {"portable": ReductionPortableKernel}
    interfaces = {"reduction": ReductionFwdInterface}
    function: ClassVar[str]

    def __init__(
        self, dim: Axes = None, keepdim: bool = False, *, target: str | None = None
    ) -> None:
        self.dim = dim
        self.keepdim = keepdim
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Reduce `x`."""
        return self._reduce(x)

    def _reduce(self, x: Tensor, ord: float | None = None) -> Tensor:
        """Reduce `x`, with the norm's order where the function has one."""
        axes = _normalised(self.dim, x.dim())
        out_dtype = self.dtype or x.dtype
        call = ReductionCall(
            self.function, x.dim(), axes, self.keepdim, x.dtype, out_dtype, ord, device=x.device
        )
        return self.kernel_for("reduction", call)(x)


class _AccumulationOp(_ReductionOp):
    """A reduction that may be asked for another dtype."""

    def __init__(
        self,
        dim: Axes = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        self.dtype = dtype
        super().__init__(dim, keepdim, target=target)


class SumFwdOp(_AccumulationOp):
    """Sum over axes; 0 over empty ones. Source: `torch.sum`."""

    function = "sum"


class MeanFwdOp(_AccumulationOp):
    """Mean over axes; NaN over empty ones. Source: `torch.mean`."""

    function = "mean"


class AmaxFwdOp(_ReductionOp):
    """Maximum over axes, none of which is empty; NaN wins. Source: `torch.amax`."""

    function = "amax"


class VectorNormFwdOp(_ReductionOp):
    """Vector norm of order 1, 2 or infinity over axes.

    Squares are float32, so that they do not overflow where the norm itself fits.

    Source: `torch.linalg.vector_norm`.
    """

    function = "norm"

    def __init__(
        self,
        ord: float = 2,
        dim: Axes = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        self.ord = ord
        self.dtype = dtype
        super().__init__(dim, keepdim, target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Take the norm of `x`."""
        return self._reduce(x, self.ord)


class SoftmaxFwdOp(Op):
    """Softmax along an axis; `dim=None` is axis 0 of 0-, 1- and 3-d tensors, else axis 1.

    A row of -inf gives NaN.

    Source: `torch.nn.functional.softmax`.
    """

    kernel_types = {"portable": SoftmaxPortableKernel}
    interfaces = {"softmax": SoftmaxFwdInterface}

    def __init__(
        self,
        dim: int | None = None,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        self.dim = dim
        self.dtype = dtype
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` along the axis."""
        rank = x.dim()
        dim = self.dim if self.dim is not None else 0 if rank in (0, 1, 3) else 1
        call = SoftmaxCall(
            rank, dim % max(rank, 1), x.dtype, self.dtype or x.dtype, device=x.device
        )
        return self.kernel_for("softmax", call)(x)
