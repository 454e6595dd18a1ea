"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

import torch
from torch import Tensor

from tileops.quantization import ops as _ops

__all__ = [
    "FP8QuantFwdOp",
    "FP8QuantPerBlockFwdOp",
    "INT4QuantPerGroupFwdOp",
    "INT8DequantPerBlockFwdOp",
    "INT8DequantPerChannelFwdOp",
    "INT8DequantPerTensorFwdOp",
    "INT8QuantPerBlockFwdOp",
    "INT8QuantPerChannelFwdOp",
    "INT8QuantPerTensorFwdOp",
    "SmoothQuantFwdOp",
]

class FP8QuantFwdOp(_ops.FP8QuantFwdOp):
    """The last axis to float8_e4m3fn by `scale = max(amax, 1e-4) / 448`; the scale comes first.

    With runs of 128 as the last axis it makes the scales of activations that `GemmFp8FwdOp` takes.
    Magnitudes and quotients are float32; codes are cut off at ±448.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input_tensor: `T[batch, seq_len_kv, kv_group, index_dim]`

        Calls return:
            scale_tensor: `float32[batch, seq_len_kv, kv_group]`
            output_tensor: `float8_e4m3fn[batch, seq_len_kv, kv_group, index_dim]`
        """

    def __call__(self, input_tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            input_tensor: `T[batch, seq_len_kv, kv_group, index_dim]`

        Returns:
            scale_tensor: `float32[batch, seq_len_kv, kv_group]`
            output_tensor: `float8_e4m3fn[batch, seq_len_kv, kv_group, index_dim]`

        ∀ batch, seq_len_kv, kv_group, index_dim : Dim, T ∈ {float16, bfloat16, float32}
        let R = batch * seq_len_kv * kv_group
        where index_dim > 0
        """

class FP8QuantPerBlockFwdOp(_ops.FP8QuantPerBlockFwdOp):
    """A weight to float8_e4m3fn, a scale for each tile of 128 by 128.

    `scale = amax / 448` of a tile, 1 where it is all zero; tiles at the edges may be partial. The
    scales are what checkpoints of DeepSeek-V3 call `weight_scale_inv`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            w: `T[N, K]`

        Calls return:
            q: `float8_e4m3fn[N, K]`
            scale: `float32[ceil_div(N, 128), ceil_div(K, 128)]`
        """

    def __call__(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            w: `T[N, K]`

        Returns:
            q: `float8_e4m3fn[N, K]`
            scale: `float32[ceil_div(N, 128), ceil_div(K, 128)]`

        ∀ N, K : Dim, T ∈ {float16, bfloat16, float32}
        """

class INT4QuantPerGroupFwdOp(_ops.INT4QuantPerGroupFwdOp):
    """A weight to the packed 4-bit codes, scales and zero points that `GemmW4A16FwdOp` takes.

    Each group's range, widened to hold 0, is cut into 15 steps; codes are computed against the
    scale as rounded. An all-zero group has the scale 1.
    """

    def __init__(self, group_size: int = 128, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            group_size: `int`, 128
            target: what serves the instance; by default the device decides

        Calls take:
            w: `T[N, K]`

        Calls return:
            packed_weight: `uint8[N, K // 2]`
            weight_scale: `T[N, K // group_size]`
            weight_zero: `uint8[N, K // group_size]`
        """

    def __call__(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            w: `T[N, K]`

        Returns:
            packed_weight: `uint8[N, K // 2]`
            weight_scale: `T[N, K // group_size]`
            weight_zero: `uint8[N, K // group_size]`

        ∀ N, K : Dim, T ∈ {float16}
        where group_size > 0
          and K % 128 == 0
          and K % group_size == 0
        """

class INT8DequantPerBlockFwdOp(_ops.INT8DequantPerBlockFwdOp):
    """int8 codes times the scale of their run of 128 along a row, in float32, rounded once."""

    def __init__(self, out_dtype: torch.dtype, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            out_dtype: `float16 | bfloat16 | float32`
            target: what serves the instance; by default the device decides

        Calls take:
            q: `int8[M, K]`
            scale: `float32[M, ceil_div(K, 128)]`

        Calls return:
            x: `out_dtype[M, K]`
        """

    def __call__(self, q: Tensor, scale: Tensor) -> Tensor:
        """Call the op.

        Args:
            q: `int8[M, K]`
            scale: `float32[M, ceil_div(K, 128)]`

        Returns:
            x: `out_dtype[M, K]`

        ∀ M, K : Dim
        """

class INT8DequantPerChannelFwdOp(_ops.INT8DequantPerChannelFwdOp):
    """int8 codes times the scale of their row, in float32, rounded once."""

    def __init__(self, out_dtype: torch.dtype, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            out_dtype: `float16 | bfloat16 | float32`
            target: what serves the instance; by default the device decides

        Calls take:
            q: `int8[M, K]`
            scale: `float32[M]`

        Calls return:
            x: `out_dtype[M, K]`
        """

    def __call__(self, q: Tensor, scale: Tensor) -> Tensor:
        """Call the op.

        Args:
            q: `int8[M, K]`
            scale: `float32[M]`

        Returns:
            x: `out_dtype[M, K]`

        ∀ M, K : Dim
        """

class INT8DequantPerTensorFwdOp(_ops.INT8DequantPerTensorFwdOp):
    """int8 codes times one scale, in float32, rounded once."""

    def __init__(self, out_dtype: torch.dtype, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            out_dtype: `float16 | bfloat16 | float32`
            target: what serves the instance; by default the device decides

        Calls take:
            q: `int8[M, K]`
            scale: `float32[1]`

        Calls return:
            x: `out_dtype[M, K]`
        """

    def __call__(self, q: Tensor, scale: Tensor) -> Tensor:
        """Call the op.

        Args:
            q: `int8[M, K]`
            scale: `float32[1]`

        Returns:
            x: `out_dtype[M, K]`

        ∀ M, K : Dim
        """

class INT8QuantPerBlockFwdOp(_ops.INT8QuantPerBlockFwdOp):
    """Symmetric int8 codes with a scale, `amax / 127`, for each run of 128 along a row.

    The last run of a row may be short. An all-zero run has the scale 1.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, K]`

        Calls return:
            q: `int8[M, K]`
            scale: `float32[M, ceil_div(K, 128)]`
        """

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[M, K]`

        Returns:
            q: `int8[M, K]`
            scale: `float32[M, ceil_div(K, 128)]`

        ∀ M, K : Dim, T ∈ {float16, bfloat16, float32}
        """

class INT8QuantPerChannelFwdOp(_ops.INT8QuantPerChannelFwdOp):
    """A weight to symmetric int8 codes with a scale for each row, `amax / 127`, 1 for zeros."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            w: `T[N, K]`

        Calls return:
            q: `int8[N, K]`
            scale: `float32[N]`
        """

    def __call__(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            w: `T[N, K]`

        Returns:
            q: `int8[N, K]`
            scale: `float32[N]`

        ∀ N, K : Dim, T ∈ {float16, bfloat16, float32}
        where K > 0
        """

class INT8QuantPerTensorFwdOp(_ops.INT8QuantPerTensorFwdOp):
    """A matrix to symmetric int8 codes with one scale, `amax / 127`, 1 for zeros."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, K]`

        Calls return:
            q: `int8[M, K]`
            scale: `float32[1]`
        """

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[M, K]`

        Returns:
            q: `int8[M, K]`
            scale: `float32[1]`

        ∀ M, K : Dim, T ∈ {float16, bfloat16, float32}
        where M > 0 and K > 0
        """

class SmoothQuantFwdOp(_ops.SmoothQuantFwdOp):
    """Rows divided by a smoothing vector to symmetric int8 codes, a scale for each row.

    Source: SmoothQuant, Xiao et al. 2023.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, K]`
            smooth: `float32[K]`

        Calls return:
            q: `int8[M, K]`
            scale: `float32[M]`
        """

    def __call__(self, x: Tensor, smooth: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[M, K]`
            smooth: `float32[K]`

        Returns:
            q: `int8[M, K]`
            scale: `float32[M]`

        ∀ M, K : Dim, T ∈ {float16, bfloat16, float32}
        where K > 0
        """
