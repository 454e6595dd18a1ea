"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

import torch
from torch import Tensor

from tileops.pool import ops as _ops

__all__ = [
    "AdaptiveAvgPool2dFwdOp",
    "AdaptiveMaxPool2dFwdOp",
    "AdaptiveMaxPool2dIndicesFwdOp",
    "AvgPool1dFwdOp",
    "AvgPool2dFwdOp",
    "AvgPool3dFwdOp",
    "MaxPool1dFwdOp",
    "MaxPool1dIndicesFwdOp",
    "MaxPool2dFwdOp",
    "MaxPool2dIndicesFwdOp",
    "MaxPool3dFwdOp",
    "MaxPool3dIndicesFwdOp",
    "MeanPoolingFwdOp",
]

class AdaptiveAvgPool2dFwdOp(_ops.AdaptiveAvgPool2dFwdOp):
    """Averages over windows `[floor(i L / O), ceil((i + 1) L / O))`, summed in float32.

    Windows overlap when an extent is no multiple, and repeat when the result is larger.

    Source: `torch.nn.functional.adaptive_avg_pool2d`.
    """

    def __init__(
        self,
        output_size: int | None | tuple[int | None, int | None] | list[int | None],
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            output_size: `int | None | tuple[int | None, int | None] | list[int | None]`
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*B, C, H_in, W_in]`

        Calls return:
            output: `T[*B, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*B, C, H_in, W_in]`

        Returns:
            output: `T[*B, C, H_out, W_out]`

        ∀ B : Shape, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let H_out = per_axis(output_size, 0, 2, fallback=H_in)
        let W_out = per_axis(output_size, 1, 2, fallback=W_in)
        where len(B) <= 1
          and H_in > 0 and W_in > 0 and H_out > 0 and W_out > 0
        """

class AdaptiveMaxPool2dFwdOp(_ops.AdaptiveMaxPool2dFwdOp):
    """Maxima over windows `[floor(i L / O), ceil((i + 1) L / O))`; NaN wins.

    Source: `torch.nn.functional.adaptive_max_pool2d`.
    """

    def __init__(
        self,
        output_size: int | None | tuple[int | None, int | None] | list[int | None],
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            output_size: `int | None | tuple[int | None, int | None] | list[int | None]`
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*B, C, H_in, W_in]`

        Calls return:
            output: `T[*B, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*B, C, H_in, W_in]`

        Returns:
            output: `T[*B, C, H_out, W_out]`

        ∀ B : Shape, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let H_out = per_axis(output_size, 0, 2, fallback=H_in)
        let W_out = per_axis(output_size, 1, 2, fallback=W_in)
        where len(B) <= 1
          and H_in > 0 and W_in > 0 and H_out > 0 and W_out > 0
        """

class AdaptiveMaxPool2dIndicesFwdOp(_ops.AdaptiveMaxPool2dIndicesFwdOp):
    """Maxima as in `AdaptiveMaxPool2dFwdOp`, and their places: returns `(output, indices)`.

    Places count in the flattened plane: the first of equal maxima, the last NaN.

    Source: `torch.nn.functional.adaptive_max_pool2d` with `return_indices`.
    """

    def __init__(
        self,
        output_size: int | None | tuple[int | None, int | None] | list[int | None],
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            output_size: `int | None | tuple[int | None, int | None] | list[int | None]`
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*B, C, H_in, W_in]`

        Calls return:
            output: `T[*B, C, H_out, W_out]`
            indices: `int64[*B, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            input: `T[*B, C, H_in, W_in]`

        Returns:
            output: `T[*B, C, H_out, W_out]`
            indices: `int64[*B, C, H_out, W_out]`

        ∀ B : Shape, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let H_out = per_axis(output_size, 0, 2, fallback=H_in)
        let W_out = per_axis(output_size, 1, 2, fallback=W_in)
        where len(B) <= 1
          and H_in > 0 and W_in > 0 and H_out > 0 and W_out > 0
        """

class AvgPool1dFwdOp(_ops.AvgPool1dFwdOp):
    """Averages over windows of one axis, summed in float32.

    Padding counts in the divisor unless `count_include_pad` is false; the overhang of `ceil_mode`
    never does.

    Source: `torch.nn.functional.avg_pool1d`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int]`
            stride: `int | tuple[int] | None`, None
            padding: `int | tuple[int]`, 0
            ceil_mode: `bool`, False
            count_include_pad: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, L_in]`

        Calls return:
            output: `T[N, C, L_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, L_in]`

        Returns:
            output: `T[N, C, L_out]`

        ∀ N, C, L_in : Dim, T ∈ {float16, bfloat16, float32}
        let k = per_axis(kernel_size, 0, 1)
        let s = per_axis(stride, 0, 1, fallback=k)
        let p = per_axis(padding, 0, 1)
        let L_out = pool.out(L_in, k, s, p, 1, ceil_mode)
        where k > 0 and s > 0 and 0 <= p <= k // 2
          and L_in > 0 and L_out > 0
        """

class AvgPool2dFwdOp(_ops.AvgPool2dFwdOp):
    """Averages over windows of two axes, summed in float32, with a divisor to choose.

    Source: `torch.nn.functional.avg_pool2d`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int]`
            stride: `int | tuple[int, int] | None`, None
            padding: `int | tuple[int, int]`, 0
            ceil_mode: `bool`, False
            count_include_pad: `bool`, True
            divisor_override: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, H_in, W_in]`

        Calls return:
            output: `T[N, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, H_in, W_in]`

        Returns:
            output: `T[N, C, H_out, W_out]`

        ∀ N, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_h = per_axis(kernel_size, 0, 2)
        let s_h = per_axis(stride, 0, 2, fallback=k_h)
        let p_h = per_axis(padding, 0, 2)
        let H_out = pool.out(H_in, k_h, s_h, p_h, 1, ceil_mode)
        let k_w = per_axis(kernel_size, 1, 2)
        let s_w = per_axis(stride, 1, 2, fallback=k_w)
        let p_w = per_axis(padding, 1, 2)
        let W_out = pool.out(W_in, k_w, s_w, p_w, 1, ceil_mode)
        where k_h > 0 and s_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and 0 <= p_w <= k_w // 2
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
          and not present(divisor_override) or divisor_override.value != 0
        """

class AvgPool3dFwdOp(_ops.AvgPool3dFwdOp):
    """Averages over windows of three axes, summed in float32, with a divisor to choose.

    Source: `torch.nn.functional.avg_pool3d`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int, int]`
            stride: `int | tuple[int, int, int] | None`, None
            padding: `int | tuple[int, int, int]`, 0
            ceil_mode: `bool`, False
            count_include_pad: `bool`, True
            divisor_override: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, D_in, H_in, W_in]`

        Calls return:
            output: `T[N, C, D_out, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, D_in, H_in, W_in]`

        Returns:
            output: `T[N, C, D_out, H_out, W_out]`

        ∀ N, C, D_in, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_d = per_axis(kernel_size, 0, 3)
        let s_d = per_axis(stride, 0, 3, fallback=k_d)
        let p_d = per_axis(padding, 0, 3)
        let D_out = pool.out(D_in, k_d, s_d, p_d, 1, ceil_mode)
        let k_h = per_axis(kernel_size, 1, 3)
        let s_h = per_axis(stride, 1, 3, fallback=k_h)
        let p_h = per_axis(padding, 1, 3)
        let H_out = pool.out(H_in, k_h, s_h, p_h, 1, ceil_mode)
        let k_w = per_axis(kernel_size, 2, 3)
        let s_w = per_axis(stride, 2, 3, fallback=k_w)
        let p_w = per_axis(padding, 2, 3)
        let W_out = pool.out(W_in, k_w, s_w, p_w, 1, ceil_mode)
        where k_d > 0 and s_d > 0 and 0 <= p_d <= k_d // 2
          and k_h > 0 and s_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and 0 <= p_w <= k_w // 2
          and D_in > 0 and D_out > 0
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
          and not present(divisor_override) or divisor_override.value != 0
        """

class MaxPool1dFwdOp(_ops.MaxPool1dFwdOp):
    """Maxima over windows of one axis; NaN wins. Source: `torch.nn.functional.max_pool1d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int]`
            stride: `int | tuple[int] | None`, None
            padding: `int | tuple[int]`, 0
            dilation: `int | tuple[int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, L_in]`

        Calls return:
            output: `T[N, C, L_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, L_in]`

        Returns:
            output: `T[N, C, L_out]`

        ∀ N, C, L_in : Dim, T ∈ {float16, bfloat16, float32}
        let k = per_axis(kernel_size, 0, 1)
        let s = per_axis(stride, 0, 1, fallback=k)
        let p = per_axis(padding, 0, 1)
        let d = per_axis(dilation, 0, 1)
        let L_out = pool.out(L_in, k, s, p, d, ceil_mode)
        where k > 0 and s > 0 and d > 0 and 0 <= p <= k // 2
          and L_in > 0 and L_out > 0
        """

class MaxPool1dIndicesFwdOp(_ops.MaxPool1dIndicesFwdOp):
    """Maxima over windows of one axis and their places: returns `(output, indices)`.

    Places count in the flattened plane without padding: the first of equal maxima, the last NaN.

    Source: `torch.nn.functional.max_pool1d` with `return_indices`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int]`
            stride: `int | tuple[int] | None`, None
            padding: `int | tuple[int]`, 0
            dilation: `int | tuple[int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, L_in]`

        Calls return:
            output: `T[N, C, L_out]`
            indices: `int64[N, C, L_out]`
        """

    def __call__(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            input: `T[N, C, L_in]`

        Returns:
            output: `T[N, C, L_out]`
            indices: `int64[N, C, L_out]`

        ∀ N, C, L_in : Dim, T ∈ {float16, bfloat16, float32}
        let k = per_axis(kernel_size, 0, 1)
        let s = per_axis(stride, 0, 1, fallback=k)
        let p = per_axis(padding, 0, 1)
        let d = per_axis(dilation, 0, 1)
        let L_out = pool.out(L_in, k, s, p, d, ceil_mode)
        where k > 0 and s > 0 and d > 0 and 0 <= p <= k // 2
          and L_in > 0 and L_out > 0
        """

class MaxPool2dFwdOp(_ops.MaxPool2dFwdOp):
    """Maxima over windows of two axes; NaN wins. Source: `torch.nn.functional.max_pool2d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int]`
            stride: `int | tuple[int, int] | None`, None
            padding: `int | tuple[int, int]`, 0
            dilation: `int | tuple[int, int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, H_in, W_in]`

        Calls return:
            output: `T[N, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, H_in, W_in]`

        Returns:
            output: `T[N, C, H_out, W_out]`

        ∀ N, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_h = per_axis(kernel_size, 0, 2)
        let s_h = per_axis(stride, 0, 2, fallback=k_h)
        let p_h = per_axis(padding, 0, 2)
        let d_h = per_axis(dilation, 0, 2)
        let H_out = pool.out(H_in, k_h, s_h, p_h, d_h, ceil_mode)
        let k_w = per_axis(kernel_size, 1, 2)
        let s_w = per_axis(stride, 1, 2, fallback=k_w)
        let p_w = per_axis(padding, 1, 2)
        let d_w = per_axis(dilation, 1, 2)
        let W_out = pool.out(W_in, k_w, s_w, p_w, d_w, ceil_mode)
        where k_h > 0 and s_h > 0 and d_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and d_w > 0 and 0 <= p_w <= k_w // 2
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
        """

class MaxPool2dIndicesFwdOp(_ops.MaxPool2dIndicesFwdOp):
    """Maxima over windows of two axes and their places, as in one: `(output, indices)`.

    Source: `torch.nn.functional.max_pool2d` with `return_indices`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int]`
            stride: `int | tuple[int, int] | None`, None
            padding: `int | tuple[int, int]`, 0
            dilation: `int | tuple[int, int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, H_in, W_in]`

        Calls return:
            output: `T[N, C, H_out, W_out]`
            indices: `int64[N, C, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            input: `T[N, C, H_in, W_in]`

        Returns:
            output: `T[N, C, H_out, W_out]`
            indices: `int64[N, C, H_out, W_out]`

        ∀ N, C, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_h = per_axis(kernel_size, 0, 2)
        let s_h = per_axis(stride, 0, 2, fallback=k_h)
        let p_h = per_axis(padding, 0, 2)
        let d_h = per_axis(dilation, 0, 2)
        let H_out = pool.out(H_in, k_h, s_h, p_h, d_h, ceil_mode)
        let k_w = per_axis(kernel_size, 1, 2)
        let s_w = per_axis(stride, 1, 2, fallback=k_w)
        let p_w = per_axis(padding, 1, 2)
        let d_w = per_axis(dilation, 1, 2)
        let W_out = pool.out(W_in, k_w, s_w, p_w, d_w, ceil_mode)
        where k_h > 0 and s_h > 0 and d_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and d_w > 0 and 0 <= p_w <= k_w // 2
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
        """

class MaxPool3dFwdOp(_ops.MaxPool3dFwdOp):
    """Maxima over windows of three axes; NaN wins. Source: `torch.nn.functional.max_pool3d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int, int]`
            stride: `int | tuple[int, int, int] | None`, None
            padding: `int | tuple[int, int, int]`, 0
            dilation: `int | tuple[int, int, int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, D_in, H_in, W_in]`

        Calls return:
            output: `T[N, C, D_out, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C, D_in, H_in, W_in]`

        Returns:
            output: `T[N, C, D_out, H_out, W_out]`

        ∀ N, C, D_in, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_d = per_axis(kernel_size, 0, 3)
        let s_d = per_axis(stride, 0, 3, fallback=k_d)
        let p_d = per_axis(padding, 0, 3)
        let d_d = per_axis(dilation, 0, 3)
        let D_out = pool.out(D_in, k_d, s_d, p_d, d_d, ceil_mode)
        let k_h = per_axis(kernel_size, 1, 3)
        let s_h = per_axis(stride, 1, 3, fallback=k_h)
        let p_h = per_axis(padding, 1, 3)
        let d_h = per_axis(dilation, 1, 3)
        let H_out = pool.out(H_in, k_h, s_h, p_h, d_h, ceil_mode)
        let k_w = per_axis(kernel_size, 2, 3)
        let s_w = per_axis(stride, 2, 3, fallback=k_w)
        let p_w = per_axis(padding, 2, 3)
        let d_w = per_axis(dilation, 2, 3)
        let W_out = pool.out(W_in, k_w, s_w, p_w, d_w, ceil_mode)
        where k_d > 0 and s_d > 0 and d_d > 0 and 0 <= p_d <= k_d // 2
          and k_h > 0 and s_h > 0 and d_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and d_w > 0 and 0 <= p_w <= k_w // 2
          and D_in > 0 and D_out > 0
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
        """

class MaxPool3dIndicesFwdOp(_ops.MaxPool3dIndicesFwdOp):
    """Maxima over windows of three axes and their places, as in one: `(output, indices)`.

    Source: `torch.nn.functional.max_pool3d` with `return_indices`.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            kernel_size: `int | tuple[int, int, int]`
            stride: `int | tuple[int, int, int] | None`, None
            padding: `int | tuple[int, int, int]`, 0
            dilation: `int | tuple[int, int, int]`, 1
            ceil_mode: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C, D_in, H_in, W_in]`

        Calls return:
            output: `T[N, C, D_out, H_out, W_out]`
            indices: `int64[N, C, D_out, H_out, W_out]`
        """

    def __call__(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            input: `T[N, C, D_in, H_in, W_in]`

        Returns:
            output: `T[N, C, D_out, H_out, W_out]`
            indices: `int64[N, C, D_out, H_out, W_out]`

        ∀ N, C, D_in, H_in, W_in : Dim, T ∈ {float16, bfloat16, float32}
        let k_d = per_axis(kernel_size, 0, 3)
        let s_d = per_axis(stride, 0, 3, fallback=k_d)
        let p_d = per_axis(padding, 0, 3)
        let d_d = per_axis(dilation, 0, 3)
        let D_out = pool.out(D_in, k_d, s_d, p_d, d_d, ceil_mode)
        let k_h = per_axis(kernel_size, 1, 3)
        let s_h = per_axis(stride, 1, 3, fallback=k_h)
        let p_h = per_axis(padding, 1, 3)
        let d_h = per_axis(dilation, 1, 3)
        let H_out = pool.out(H_in, k_h, s_h, p_h, d_h, ceil_mode)
        let k_w = per_axis(kernel_size, 2, 3)
        let s_w = per_axis(stride, 2, 3, fallback=k_w)
        let p_w = per_axis(padding, 2, 3)
        let d_w = per_axis(dilation, 2, 3)
        let W_out = pool.out(W_in, k_w, s_w, p_w, d_w, ceil_mode)
        where k_d > 0 and s_d > 0 and d_d > 0 and 0 <= p_d <= k_d // 2
          and k_h > 0 and s_h > 0 and d_h > 0 and 0 <= p_h <= k_h // 2
          and k_w > 0 and s_w > 0 and d_w > 0 and 0 <= p_w <= k_w // 2
          and D_in > 0 and D_out > 0
          and H_in > 0 and H_out > 0
          and W_in > 0 and W_out > 0
        """

class MeanPoolingFwdOp(_ops.MeanPoolingFwdOp):
    """Mean of each chunk of at most `chunk_size` rows of a sequence axis.

    A tail is divided by its own length. With offsets of packed sequences, chunks restart at every
    boundary, and the same boundaries serve every batch row. Sums have the precision of
    `accum_dtype`, float32 at least, and are rounded once.

    Source: block compression of linear and sparse attention.
    """

    def __init__(
        self, chunk_size: int, accum_dtype: torch.dtype, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`
            accum_dtype: `torch.dtype`
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[B, S, H, D]`
            offsets: `int32[NS + 1]`, prefix_offsets(S)
            indices: `int32[NC, 2]`, given exactly when present(offsets)

        Calls return:
            output: `T PoolOut[present(offsets), B, NC, S, chunk_size, H, D]`
        """

    def __call__(
        self, x: Tensor, offsets: Tensor | None = None, indices: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            x: `T[B, S, H, D]`
            offsets: `int32[NS + 1]`, prefix_offsets(S)
            indices: `int32[NC, 2]`, given exactly when present(offsets)

        Returns:
            output: `T PoolOut[present(offsets), B, NC, S, chunk_size, H, D]`

        ∀ B, S, H, D, NS, NC : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type PoolOut[packed: Bool, B: Dim, NC: Dim, S: Dim, c: Int, H: Dim, D: Dim] = match packed
          true ⇒ [B, NC, H, D]
          false ⇒ [B, ceil_div(S, c), H, D]
        where chunk_size > 0 and chunk_size % 32 == 0
          and D <= 128 or D % 128 == 0
          and category(accum_dtype) == 'float'
        """
