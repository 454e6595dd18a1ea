"""Reductions: an op names its function, the bases normalise axes and build the call spec.

Accumulation is float32 for every dtype and rounded once. With `dtype`, the input is cast before it
is reduced and the result has that dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.reduction.kernels import (
    ColumnReductionKernel,
    ColumnVarMeanKernel,
    ReductionCall,
    ReductionFwdInterface,
    ReductionPortableKernel,
    RowReductionKernel,
    RowScanKernel,
    RowVarMeanKernel,
    ScanCall,
    ScanFwdInterface,
    ScanPortableKernel,
    SoftmaxBwdCall,
    SoftmaxBwdInterface,
    SoftmaxBwdPortableKernel,
    SoftmaxCall,
    SoftmaxFwdInterface,
    SoftmaxOnChipKernel,
    SoftmaxPortableKernel,
    SoftmaxSplitKernel,
    SoftmaxStreamingKernel,
    VarMeanFwdInterface,
    VarMeanPortableKernel,
)
from tileops.reduction.kernels.layout import reduction_layout
from tileops.reduction.kernels.softmax import are_few

__all__ = [
    "SoftmaxFwdOp",
    "SoftmaxBwdOp",
    "LogSoftmaxFwdOp",
    "LogSoftmaxBwdOp",
    "LogSumExpFwdOp",
    "SumFwdOp",
    "MeanFwdOp",
    "ProdFwdOp",
    "AmaxFwdOp",
    "AminFwdOp",
    "ArgmaxFwdOp",
    "ArgminFwdOp",
    "VarFwdOp",
    "StdFwdOp",
    "VarMeanFwdOp",
    "AllFwdOp",
    "AnyFwdOp",
    "CountNonzeroFwdOp",
    "VectorNormFwdOp",
    "CumsumFwdOp",
    "CumprodFwdOp",
]

Axes = int | Sequence[int] | None
"""One axis, several, or all of them (None)."""


def _normalised(dim: Axes, rank: int) -> tuple[int, ...]:
    """The axes of `dim`, non-negative and ascending; None means all of them."""
    if rank == 0 or dim is None:
        return tuple(range(rank))
    return tuple(sorted(axis % rank for axis in ([dim] if isinstance(dim, int) else dim)))


class _ReductionOp(Op):
    """Reduces with `function` over the axes `dim`; no axis means all of them."""

    kernel_types = {
        "rows": RowReductionKernel,
        "columns": ColumnReductionKernel,
        "portable": ReductionPortableKernel,
    }
    interfaces = {"reduction": ReductionFwdInterface}
    function: ClassVar[str]
    result: ClassVar[torch.dtype | None] = None
    """Element type of the result where neither `dtype` nor the input decides."""
    ord: float | None = None
    correction: float | None = None

    def __init__(
        self, dim: Axes = None, keepdim: bool = False, *, target: str | None = None
    ) -> None:
        self.dim = dim
        self.keepdim = keepdim
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Any:
        """Reduce `x`."""
        (interface,) = self.interfaces
        return self.kernel_for(interface, self._call(x))(x)

    def _call(self, x: Tensor) -> ReductionCall:
        """The call spec."""
        out_dtype = self.result or self.dtype or x.dtype
        axes = self._axes(x.dim())
        return ReductionCall(
            self.function,
            x.dim(),
            axes,
            self.keepdim,
            x.dtype,
            out_dtype,
            self.ord,
            self.correction,
            reduction_layout(x, axes) if x.is_cuda else None,
            device=x.device,
        )

    def _axes(self, rank: int) -> tuple[int, ...]:
        """The axes to reduce, non-negative and ascending."""
        return _normalised(self.dim, rank) or tuple(range(rank))


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


class _PlaceOp(_ReductionOp):
    """The place of an extreme along one axis, or in the flattened tensor."""

    result = torch.int64

    def __init__(
        self, dim: int | None = None, keepdim: bool = False, *, target: str | None = None
    ) -> None:
        super().__init__(dim, keepdim, target=target)


class _SpreadOp(_ReductionOp):
    """A measure of spread, its divisor the number of elements less `correction`, None being 1."""

    def __init__(
        self,
        dim: Axes = None,
        *,
        correction: float | None = 1,
        keepdim: bool = False,
        target: str | None = None,
    ) -> None:
        self.correction = correction
        super().__init__(dim, keepdim, target=target)


class _TruthOp(_ReductionOp):
    """A reduction of truths, which reduces nothing where `dim` names no axis."""

    result = torch.bool

    def _axes(self, rank: int) -> tuple[int, ...]:
        """The axes to reduce, non-negative and ascending."""
        return _normalised(self.dim, rank)


class LogSumExpFwdOp(_ReductionOp):
    """`log(sum(exp(x)))` over at least one axis; -inf over empty ones or where all are -inf.

    The maximum is taken out first, so that +inf gives inf.

    Source: `torch.logsumexp`.
    """

    function = "logsumexp"

    def __init__(
        self, dim: int | Sequence[int], keepdim: bool = False, *, target: str | None = None
    ) -> None:
        super().__init__(dim, keepdim, target=target)


class SumFwdOp(_AccumulationOp):
    """Sum over axes; 0 over empty ones. Source: `torch.sum`."""

    function = "sum"


class MeanFwdOp(_AccumulationOp):
    """Mean over axes; NaN over empty ones. Source: `torch.mean`."""

    function = "mean"


class ProdFwdOp(_AccumulationOp):
    """Product along one axis; 1 along an empty one. Source: `torch.prod`."""

    function = "prod"

    def __init__(
        self,
        dim: int,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        super().__init__(dim, keepdim, dtype=dtype, target=target)


class AmaxFwdOp(_ReductionOp):
    """Maximum over axes, none of which is empty; NaN wins. Source: `torch.amax`."""

    function = "amax"


class AminFwdOp(_ReductionOp):
    """Minimum over axes, none of which is empty; NaN wins. Source: `torch.amin`."""

    function = "amin"


class ArgmaxFwdOp(_PlaceOp):
    """Place of the maximum, the first of several; NaN wins. Source: `torch.argmax`."""

    function = "argmax"


class ArgminFwdOp(_PlaceOp):
    """Place of the minimum, the first of several; NaN wins. Source: `torch.argmin`."""

    function = "argmin"


class VarFwdOp(_SpreadOp):
    """Variance over axes, of centred values; NaN without degrees of freedom.

    Source: `torch.var`.
    """

    function = "var"


class StdFwdOp(_SpreadOp):
    """Standard deviation over axes, of centred values; NaN without degrees of freedom.

    Source: `torch.std`.
    """

    function = "std"


class VarMeanFwdOp(_SpreadOp):
    """Variance and mean over axes: returns `(var, mean)`. Source: `torch.var_mean`."""

    kernel_types = {
        "rows": RowVarMeanKernel,
        "columns": ColumnVarMeanKernel,
        "portable": VarMeanPortableKernel,
    }
    interfaces = {"var_mean": VarMeanFwdInterface}
    function = "var_mean"


class AllFwdOp(_TruthOp):
    """Whether all elements are nonzero, NaN being so; true over empty axes.

    Source: `torch.all`.
    """

    function = "all"


class AnyFwdOp(_TruthOp):
    """Whether some element is nonzero, NaN being so; false over empty axes.

    Source: `torch.any`.
    """

    function = "any"


class CountNonzeroFwdOp(_ReductionOp):
    """Number of nonzero elements over axes, NaN being one. Source: `torch.count_nonzero`."""

    function = "count_nonzero"
    result = torch.int64

    def __init__(self, dim: Axes = None, *, target: str | None = None) -> None:
        super().__init__(dim, target=target)


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


def _softmax_axis(dim: int | None, rank: int) -> int:
    """The axis that `dim` means, non-negative; None is axis 0 of 0-, 1- and 3-d tensors, else 1."""
    chosen = dim if dim is not None else 0 if rank in (0, 1, 3) else 1
    return chosen % max(rank, 1)


class _SoftmaxOp(Op):
    """Softmax or its logarithm along an axis."""

    log: ClassVar[bool] = False
    kernel_types = {
        "on_chip": SoftmaxOnChipKernel,
        "split": SoftmaxSplitKernel,
        "streaming": SoftmaxStreamingKernel,
        "portable": SoftmaxPortableKernel,
    }
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
        axis, out_dtype = _softmax_axis(self.dim, rank), self.dtype or x.dtype
        n = x.shape[axis] if x.is_cuda and rank and axis == rank - 1 else None
        few = n is not None and are_few(x.numel() // max(n, 1), n)
        kernel = self.kernel_for_fields(
            "softmax", SoftmaxCall, x.device, rank, axis, x.dtype, out_dtype, self.log, n, few
        )
        return kernel(x)


class SoftmaxFwdOp(_SoftmaxOp):
    """Softmax along an axis; `dim=None` is axis 0 of 0-, 1- and 3-d tensors, else axis 1.

    A row of -inf gives NaN.

    Source: `torch.nn.functional.softmax`.
    """


class LogSoftmaxFwdOp(_SoftmaxOp):
    """Logarithm of the softmax along an axis, which `SoftmaxFwdOp` chooses alike.

    A row of -inf gives NaN.

    Source: `torch.nn.functional.log_softmax`.
    """

    log = True


class _SoftmaxBwdOp(Op):
    """Gradient of a softmax or its logarithm, from what the forward op gave."""

    log: ClassVar[bool] = False
    kernel_types = {"portable": SoftmaxBwdPortableKernel}
    interfaces = {"softmax_bwd": SoftmaxBwdInterface}

    def __init__(self, dim: int | None = None, *, target: str | None = None) -> None:
        self.dim = dim
        super().__init__(target=target)

    def forward(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Compute the gradient of the input."""
        rank, device = output.dim(), output.device
        axis = _softmax_axis(self.dim, rank)
        call = SoftmaxBwdCall(rank, axis, output.dtype, self.log, device=device)
        return self.kernel_for("softmax_bwd", call)(grad_out, output)


class SoftmaxBwdOp(_SoftmaxBwdOp):
    """Gradient of `SoftmaxFwdOp` in the dtype of its output; sums are float32, rounded once.

    Source: the derivative of `torch.nn.functional.softmax`.
    """


class LogSoftmaxBwdOp(_SoftmaxBwdOp):
    """Gradient of `LogSoftmaxFwdOp` in the dtype of its output; sums are float32, rounded once.

    Source: the derivative of `torch.nn.functional.log_softmax`.
    """

    log = True


class _ScanOp(Op):
    """Running values of `function` along the axis `dim`."""

    kernel_types = {"rows": RowScanKernel, "portable": ScanPortableKernel}
    interfaces = {"scan": ScanFwdInterface}
    function: ClassVar[str]

    def __init__(self, dim: int = -1, *, target: str | None = None) -> None:
        self.dim = dim
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along the axis."""
        rank = x.dim()
        axis = self.dim % rank
        n = x.shape[axis] if x.is_cuda and axis == rank - 1 else None
        call = ScanCall(self.function, rank, axis, x.dtype, n, device=x.device)
        return self.kernel_for("scan", call)(x)


class CumsumFwdOp(_ScanOp):
    """Inclusive running sum along an axis, carried in float32. Source: `torch.cumsum`."""

    function = "cumsum"


class CumprodFwdOp(_ScanOp):
    """Inclusive running product along an axis, carried in float32. Source: `torch.cumprod`."""

    function = "cumprod"
