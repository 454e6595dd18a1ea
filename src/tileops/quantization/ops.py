"""Numbers to codes of fewer bits, and back; scales are multipliers, `x ≈ q * scale`."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.quantization.kernels import (
    FP8QuantCall,
    FP8QuantFwdInterface,
    FP8QuantPerBlockCall,
    FP8QuantPerBlockFwdInterface,
    FP8QuantPerBlockPortableKernel,
    FP8QuantPortableKernel,
    FP8QuantRowsKernel,
    Grain,
    INT4QuantPerGroupCall,
    INT4QuantPerGroupFwdInterface,
    INT4QuantPerGroupPortableKernel,
    INT8DequantCall,
    INT8DequantFwdInterface,
    INT8DequantPortableKernel,
    INT8QuantCall,
    INT8QuantFwdInterface,
    INT8QuantPortableKernel,
    SmoothQuantCall,
    SmoothQuantFwdInterface,
    SmoothQuantPortableKernel,
)

__all__ = [
    "FP8QuantFwdOp",
    "INT8QuantPerTensorFwdOp",
    "INT8QuantPerChannelFwdOp",
    "INT8QuantPerBlockFwdOp",
    "INT4QuantPerGroupFwdOp",
    "SmoothQuantFwdOp",
    "INT8DequantPerTensorFwdOp",
    "INT8DequantPerChannelFwdOp",
    "INT8DequantPerBlockFwdOp",
    "FP8QuantPerBlockFwdOp",
]


class FP8QuantFwdOp(Op):
    """The last axis to float8_e4m3fn by `scale = max(amax, 1e-4) / 448`; the scale comes first.

    With runs of 128 as the last axis it makes the scales of activations that `GemmFp8FwdOp` takes.
    Magnitudes and quotients are float32; codes are cut off at ±448.
    """

    kernel_types = {"rows": FP8QuantRowsKernel, "portable": FP8QuantPortableKernel}
    interfaces = {"fp8_quant": FP8QuantFwdInterface}

    def forward(self, input_tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each run along the last axis."""
        shape = input_tensor.shape
        call = FP8QuantCall(shape[-1], input_tensor.dtype, device=input_tensor.device)
        rows = input_tensor.reshape(-1, shape[-1])
        scale, codes = self.kernel_for("fp8_quant", call)(rows)
        return scale.view(shape[:-1]), codes.view(shape)


class FP8QuantPerBlockFwdOp(Op):
    """A weight to float8_e4m3fn, a scale for each tile of 128 by 128.

    `scale = amax / 448` of a tile, 1 where it is all zero; tiles at the edges may be partial. The
    scales are what checkpoints of DeepSeek-V3 call `weight_scale_inv`.
    """

    kernel_types = {"portable": FP8QuantPerBlockPortableKernel}
    interfaces = {"fp8_quant_per_block": FP8QuantPerBlockFwdInterface}

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each tile."""
        n, k = w.shape
        call = FP8QuantPerBlockCall(n, k, w.dtype, device=w.device)
        return self.kernel_for("fp8_quant_per_block", call)(w)


class _INT8QuantOp(Op):
    """Symmetric int8 codes in ±127, rounded half to even; `scale = amax / 127`, 1 for zeros."""

    kernel_types = {"portable": INT8QuantPortableKernel}
    interfaces = {"int8_quant": INT8QuantFwdInterface}
    grain: ClassVar[Grain]

    def _quantised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scales."""
        call = INT8QuantCall(self.grain, x.shape[1], x.dtype, device=x.device)
        return self.kernel_for("int8_quant", call)(x)


class INT8QuantPerTensorFwdOp(_INT8QuantOp):
    """A matrix to symmetric int8 codes with one scale, `amax / 127`, 1 for zeros."""

    grain = "tensor"

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise."""
        return self._quantised(x)


class INT8QuantPerChannelFwdOp(_INT8QuantOp):
    """A weight to symmetric int8 codes with a scale for each row, `amax / 127`, 1 for zeros."""

    grain = "row"

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each row."""
        return self._quantised(w)


class INT8QuantPerBlockFwdOp(_INT8QuantOp):
    """Symmetric int8 codes with a scale, `amax / 127`, for each run of 128 along a row.

    The last run of a row may be short. An all-zero run has the scale 1.
    """

    grain = "block"

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each run."""
        return self._quantised(x)


class SmoothQuantFwdOp(Op):
    """Rows divided by a smoothing vector to symmetric int8 codes, a scale for each row.

    Source: SmoothQuant, Xiao et al. 2023.
    """

    kernel_types = {"portable": SmoothQuantPortableKernel}
    interfaces = {"smooth_quant": SmoothQuantFwdInterface}

    def forward(self, x: Tensor, smooth: Tensor) -> tuple[Tensor, Tensor]:
        """Smooth, then quantise each row."""
        call = SmoothQuantCall(x.shape[1], x.dtype, device=x.device)
        return self.kernel_for("smooth_quant", call)(x, smooth)


class INT4QuantPerGroupFwdOp(Op):
    """A weight to the packed 4-bit codes, scales and zero points that `GemmW4A16FwdOp` takes.

    Each group's range, widened to hold 0, is cut into 15 steps; codes are computed against the
    scale as rounded. An all-zero group has the scale 1.
    """

    kernel_types = {"portable": INT4QuantPerGroupPortableKernel}
    interfaces = {"int4_quant_per_group": INT4QuantPerGroupFwdInterface}

    def __init__(self, group_size: int = 128, *, target: str | None = None) -> None:
        self.group_size = group_size
        super().__init__(target=target)

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Quantise each group."""
        n, k = w.shape
        call = INT4QuantPerGroupCall(n, k, self.group_size, w.dtype, device=w.device)
        return self.kernel_for("int4_quant_per_group", call)(w)


class _INT8DequantOp(Op):
    """int8 codes times their scales, in float32, rounded once."""

    kernel_types = {"portable": INT8DequantPortableKernel}
    interfaces = {"int8_dequant": INT8DequantFwdInterface}
    grain: ClassVar[Grain]

    def __init__(self, out_dtype: torch.dtype, *, target: str | None = None) -> None:
        self.out_dtype = out_dtype
        super().__init__(target=target)

    def forward(self, q: Tensor, scale: Tensor) -> Tensor:
        """Multiply each code by its scale."""
        call = INT8DequantCall(self.grain, q.shape[1], self.out_dtype, device=q.device)
        return self.kernel_for("int8_dequant", call)(q, scale)


class INT8DequantPerTensorFwdOp(_INT8DequantOp):
    """int8 codes times one scale, in float32, rounded once."""

    grain = "tensor"


class INT8DequantPerChannelFwdOp(_INT8DequantOp):
    """int8 codes times the scale of their row, in float32, rounded once."""

    grain = "row"


class INT8DequantPerBlockFwdOp(_INT8DequantOp):
    """int8 codes times the scale of their run of 128 along a row, in float32, rounded once."""

    grain = "block"
