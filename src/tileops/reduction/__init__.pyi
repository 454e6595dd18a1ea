"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

import torch
from torch import Tensor

from tileops.reduction import ops as _ops

__all__ = [
    "AllFwdOp",
    "AmaxFwdOp",
    "AminFwdOp",
    "AnyFwdOp",
    "ArgmaxFwdOp",
    "ArgminFwdOp",
    "CountNonzeroFwdOp",
    "CumprodFwdOp",
    "CumsumFwdOp",
    "LogSoftmaxBwdOp",
    "LogSoftmaxFwdOp",
    "LogSumExpFwdOp",
    "MeanFwdOp",
    "ProdFwdOp",
    "SoftmaxBwdOp",
    "SoftmaxFwdOp",
    "StdFwdOp",
    "SumFwdOp",
    "VarFwdOp",
    "VarMeanFwdOp",
    "VectorNormFwdOp",
]

class AllFwdOp(_ops.AllFwdOp):
    """Whether all elements are nonzero, NaN being so; true over empty axes.

    Source: `torch.all`.
    """

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `bool[*reduced(S, dim, keepdim, 'noop')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `bool[*reduced(S, dim, keepdim, 'noop')]`

        ∀ S : Shape, T ∈ {bool, int32, int64, float16, bfloat16, float32, complex64, complex128}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class AmaxFwdOp(_ops.AmaxFwdOp):
    """Maximum over axes, none of which is empty; NaN wins. Source: `torch.amax`."""

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `T[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `T[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and sum(min((n, 1)) for n in S) == sum(min((n, 1)) for n in reduced(S, dim, True, 'full'))
        """

class AminFwdOp(_ops.AminFwdOp):
    """Minimum over axes, none of which is empty; NaN wins. Source: `torch.amin`."""

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `T[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `T[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and sum(min((n, 1)) for n in S) == sum(min((n, 1)) for n in reduced(S, dim, True, 'full'))
        """

class AnyFwdOp(_ops.AnyFwdOp):
    """Whether some element is nonzero, NaN being so; false over empty axes.

    Source: `torch.any`.
    """

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `bool[*reduced(S, dim, keepdim, 'noop')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `bool[*reduced(S, dim, keepdim, 'noop')]`

        ∀ S : Shape, T ∈ {bool, int32, int64, float16, bfloat16, float32, complex64, complex128}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class ArgmaxFwdOp(_ops.ArgmaxFwdOp):
    """Place of the maximum, the first of several; NaN wins. Source: `torch.argmax`."""

    def __init__(
        self, dim: int | None = None, keepdim: bool = False, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `int64[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `int64[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
          and sum(min((n, 1)) for n in S) == sum(min((n, 1)) for n in reduced(S, dim, True, 'full'))
        """

class ArgminFwdOp(_ops.ArgminFwdOp):
    """Place of the minimum, the first of several; NaN wins. Source: `torch.argmin`."""

    def __init__(
        self, dim: int | None = None, keepdim: bool = False, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `int64[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `int64[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
          and sum(min((n, 1)) for n in S) == sum(min((n, 1)) for n in reduced(S, dim, True, 'full'))
        """

class CountNonzeroFwdOp(_ops.CountNonzeroFwdOp):
    """Number of nonzero elements over axes, NaN being one. Source: `torch.count_nonzero`."""

    def __init__(
        self, dim: int | list[int] | tuple[int, ...] | None = None, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `int64[*reduced(S, dim, False, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `int64[*reduced(S, dim, False, 'full')]`

        ∀ S : Shape, T ∈ {bool, int32, int64, float16, bfloat16, float32, complex64, complex128}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class CumprodFwdOp(_ops.CumprodFwdOp):
    """Inclusive running product along an axis, carried in float32. Source: `torch.cumprod`."""

    def __init__(self, dim: int = -1, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            dim: `int`, -1
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            y: `T[*S]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            y: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where len(S) > 0 and valid_axes(dim, len(S))
        """

class CumsumFwdOp(_ops.CumsumFwdOp):
    """Inclusive running sum along an axis, carried in float32. Source: `torch.cumsum`."""

    def __init__(self, dim: int = -1, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            dim: `int`, -1
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            y: `T[*S]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            y: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where len(S) > 0 and valid_axes(dim, len(S))
        """

class LogSoftmaxBwdOp(_ops.LogSoftmaxBwdOp):
    """Gradient of `LogSoftmaxFwdOp` in the dtype of its output; sums are float32, rounded once.

    Source: the derivative of `torch.nn.functional.log_softmax`.
    """

    def __init__(self, dim: int | None = None, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*S]`
            output: `T[*S]`

        Calls return:
            grad_x: `T[*S]`
        """

    def __call__(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[*S]`
            output: `T[*S]`

        Returns:
            grad_x: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
        """

class LogSoftmaxFwdOp(_ops.LogSoftmaxFwdOp):
    """Logarithm of the softmax along an axis, which `SoftmaxFwdOp` chooses alike.

    A row of -inf gives NaN.

    Source: `torch.nn.functional.log_softmax`.
    """

    def __init__(
        self, dim: int | None = None, *, dtype: torch.dtype | None = None, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*S]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
        """

class LogSumExpFwdOp(_ops.LogSumExpFwdOp):
    """`log(sum(exp(x)))` over at least one axis; -inf over empty ones or where all are -inf.

    The maximum is taken out first, so that +inf gives inf.

    Source: `torch.logsumexp`.
    """

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...],
        keepdim: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...]`
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `T[*reduced(S, dim, keepdim, 'reject')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `T[*reduced(S, dim, keepdim, 'reject')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class MeanFwdOp(_ops.MeanFwdOp):
    """Mean over axes; NaN over empty ones. Source: `torch.mean`."""

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class ProdFwdOp(_ops.ProdFwdOp):
    """Product along one axis; 1 along an empty one. Source: `torch.prod`."""

    def __init__(
        self,
        dim: int,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int`
            keepdim: `bool`, False
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
        """

class SoftmaxBwdOp(_ops.SoftmaxBwdOp):
    """Gradient of `SoftmaxFwdOp` in the dtype of its output; sums are float32, rounded once.

    Source: the derivative of `torch.nn.functional.softmax`.
    """

    def __init__(self, dim: int | None = None, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*S]`
            output: `T[*S]`

        Calls return:
            grad_x: `T[*S]`
        """

    def __call__(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[*S]`
            output: `T[*S]`

        Returns:
            grad_x: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
        """

class SoftmaxFwdOp(_ops.SoftmaxFwdOp):
    """Softmax along an axis; `dim=None` is axis 0 of 0-, 1- and 3-d tensors, else axis 1.

    A row of -inf gives NaN.

    Source: `torch.nn.functional.softmax`.
    """

    def __init__(
        self, dim: int | None = None, *, dtype: torch.dtype | None = None, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | None`, None
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*S]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S))
        """

class StdFwdOp(_ops.StdFwdOp):
    """Standard deviation over axes, of centred values; NaN without degrees of freedom.

    Source: `torch.std`.
    """

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        *,
        correction: complex | None = 1,
        keepdim: bool = False,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            correction: `Number | None`, 1
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `T[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `T[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and not present(correction) or category(correction.value) != 'complex'
        """

class SumFwdOp(_ops.SumFwdOp):
    """Sum over axes; 0 over empty ones. Source: `torch.sum`."""

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
        """

class VarFwdOp(_ops.VarFwdOp):
    """Variance over axes, of centred values; NaN without degrees of freedom.

    Source: `torch.var`.
    """

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        *,
        correction: complex | None = 1,
        keepdim: bool = False,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            correction: `Number | None`, 1
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `T[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `T[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and not present(correction) or category(correction.value) != 'complex'
        """

class VarMeanFwdOp(_ops.VarMeanFwdOp):
    """Variance and mean over axes: returns `(var, mean)`. Source: `torch.var_mean`."""

    def __init__(
        self,
        dim: int | list[int] | tuple[int, ...] | None = None,
        *,
        correction: complex | None = 1,
        keepdim: bool = False,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            dim: `int | list[int] | tuple[int, ...] | None`, None
            correction: `Number | None`, 1
            keepdim: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            var: `T[*reduced(S, dim, keepdim, 'full')]`
            mean: `T[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            var: `T[*reduced(S, dim, keepdim, 'full')]`
            mean: `T[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and not present(correction) or category(correction.value) != 'complex'
        """

class VectorNormFwdOp(_ops.VectorNormFwdOp):
    """Vector norm of order 1, 2 or infinity over axes.

    Squares are float32, so that they do not overflow where the norm itself fits.

    Source: `torch.linalg.vector_norm`.
    """

    def __init__(
        self,
        ord: int | float = 2,
        dim: int | list[int] | tuple[int, ...] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            ord: `int | float`, 2
            dim: `int | list[int] | tuple[int, ...] | None`, None
            keepdim: `bool`, False
            dtype: `float16 | bfloat16 | float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            output: `(coalesce_dtype(dtype, T))[*reduced(S, dim, keepdim, 'full')]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where ord == 1 or ord == 2 or ord == inf
          and valid_axes(dim, len(S)) and unique_axes(dim, len(S))
          and not present(dtype) or dtype.value == T or dtype.value == 'float32'
          and ord != inf or sum(min((n, 1)) for n in S) == sum(min((n, 1)) for n in reduced(S, dim, True, 'full'))
        """
