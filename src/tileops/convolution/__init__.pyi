"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Literal

from torch import Tensor

from tileops.convolution import ops as _ops

__all__ = [
    "Conv1dFwdOp",
    "Conv2dFwdOp",
    "Conv3dFwdOp",
]

class Conv1dFwdOp(_ops.Conv1dFwdOp):
    """Cross-correlation over one axis, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv1d`.
    """

    def __init__(
        self,
        stride: int | tuple[int] = 1,
        padding: int | tuple[int] | Literal["valid", "same"] = 0,
        dilation: int | tuple[int] = 1,
        groups: int = 1,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            stride: `int | tuple[int]`, 1
            padding: `int | tuple[int] | 'valid' | 'same'`, 0
            dilation: `int | tuple[int]`, 1
            groups: `int`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C_in, L_in]`
            weight: `T[C_out, C_in_g, kW]`
            bias: `T[C_out]`

        Calls return:
            output: `T[N, C_out, L_out]`
        """

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C_in, L_in]`
            weight: `T[C_out, C_in_g, kW]`
            bias: `T[C_out]`

        Returns:
            output: `T[N, C_out, L_out]`

        ∀ N, C_in, C_out, L_in, kW : Dim, T ∈ {float16, bfloat16, float32}
        let C_in_g = C_in // groups
        let s = per_axis(stride, 0, 1)
        let d = per_axis(dilation, 0, 1)
        let p = 0 if padding in ('valid', 'same') else per_axis(padding, 0, 1)
        let L_out = L_in if padding == 'same' else conv.out(L_in, kW, s, p, d)
        where groups > 0 and C_in % groups == 0 and C_out % groups == 0
          and s > 0 and d > 0 and p >= 0
          and padding != 'same' or s == 1
          and kW > 0 and L_out > 0
        """

class Conv2dFwdOp(_ops.Conv2dFwdOp):
    """Cross-correlation over two axes, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv2d`.
    """

    def __init__(
        self,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | Literal["valid", "same"] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            stride: `int | tuple[int, int]`, 1
            padding: `int | tuple[int, int] | 'valid' | 'same'`, 0
            dilation: `int | tuple[int, int]`, 1
            groups: `int`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C_in, H, W]`
            weight: `T[C_out, C_in_g, kH, kW]`
            bias: `T[C_out]`

        Calls return:
            output: `T[N, C_out, out_H, out_W]`
        """

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C_in, H, W]`
            weight: `T[C_out, C_in_g, kH, kW]`
            bias: `T[C_out]`

        Returns:
            output: `T[N, C_out, out_H, out_W]`

        ∀ N, C_in, C_out, H, W, kH, kW : Dim, T ∈ {float16, bfloat16, float32}
        let C_in_g = C_in // groups
        let s_h = per_axis(stride, 0, 2)
        let d_h = per_axis(dilation, 0, 2)
        let p_h = 0 if padding in ('valid', 'same') else per_axis(padding, 0, 2)
        let out_H = H if padding == 'same' else conv.out(H, kH, s_h, p_h, d_h)
        let s_w = per_axis(stride, 1, 2)
        let d_w = per_axis(dilation, 1, 2)
        let p_w = 0 if padding in ('valid', 'same') else per_axis(padding, 1, 2)
        let out_W = W if padding == 'same' else conv.out(W, kW, s_w, p_w, d_w)
        where groups > 0 and C_in % groups == 0 and C_out % groups == 0
          and s_h > 0 and d_h > 0 and p_h >= 0
          and s_w > 0 and d_w > 0 and p_w >= 0
          and padding != 'same' or s_h == 1 and s_w == 1
          and kH > 0 and out_H > 0
          and kW > 0 and out_W > 0
        """

class Conv3dFwdOp(_ops.Conv3dFwdOp):
    """Cross-correlation over three axes, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv3d`.
    """

    def __init__(
        self,
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] | Literal["valid", "same"] = 0,
        dilation: int | tuple[int, int, int] = 1,
        groups: int = 1,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            stride: `int | tuple[int, int, int]`, 1
            padding: `int | tuple[int, int, int] | 'valid' | 'same'`, 0
            dilation: `int | tuple[int, int, int]`, 1
            groups: `int`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[N, C_in, D, H, W]`
            weight: `T[C_out, C_in_g, kD, kH, kW]`
            bias: `T[C_out]`

        Calls return:
            output: `T[N, C_out, out_D, out_H, out_W]`
        """

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Call the op.

        Args:
            input: `T[N, C_in, D, H, W]`
            weight: `T[C_out, C_in_g, kD, kH, kW]`
            bias: `T[C_out]`

        Returns:
            output: `T[N, C_out, out_D, out_H, out_W]`

        ∀ N, C_in, C_out, D, H, W, kD, kH, kW : Dim, T ∈ {float16, bfloat16, float32}
        let C_in_g = C_in // groups
        let s_d = per_axis(stride, 0, 3)
        let d_d = per_axis(dilation, 0, 3)
        let p_d = 0 if padding in ('valid', 'same') else per_axis(padding, 0, 3)
        let out_D = D if padding == 'same' else conv.out(D, kD, s_d, p_d, d_d)
        let s_h = per_axis(stride, 1, 3)
        let d_h = per_axis(dilation, 1, 3)
        let p_h = 0 if padding in ('valid', 'same') else per_axis(padding, 1, 3)
        let out_H = H if padding == 'same' else conv.out(H, kH, s_h, p_h, d_h)
        let s_w = per_axis(stride, 2, 3)
        let d_w = per_axis(dilation, 2, 3)
        let p_w = 0 if padding in ('valid', 'same') else per_axis(padding, 2, 3)
        let out_W = W if padding == 'same' else conv.out(W, kW, s_w, p_w, d_w)
        where groups > 0 and C_in % groups == 0 and C_out % groups == 0
          and s_d > 0 and d_d > 0 and p_d >= 0
          and s_h > 0 and d_h > 0 and p_h >= 0
          and s_w > 0 and d_w > 0 and p_w >= 0
          and padding != 'same' or s_d == 1 and s_h == 1 and s_w == 1
          and kD > 0 and out_D > 0
          and kH > 0 and out_H > 0
          and kW > 0 and out_W > 0
        """
