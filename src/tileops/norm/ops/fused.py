"""Norms of rows that are fused with what follows."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    AddRMSNormQuantCall,
    AddRMSNormQuantFwdInterface,
    AddRMSNormQuantPortableKernel,
    HeadNormRotaryCall,
    HeadNormRotaryFwdInterface,
    HeadNormRotaryPortableKernel,
)
from tileops.norm.ops.layout import as_rows

__all__ = [
    "FusedAddRMSNormPerTokenQuantFwdOp",
    "FusedQKNormRoPEFwdOp",
]


class FusedAddRMSNormPerTokenQuantFwdOp(Op):
    """Residual addition, RMSNorm and quantisation by row: returns `(q, scale, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised; the norm
    `y` stays float32. `scale = amax(|y|) / qmax`, where `qmax` is 448 for float8 and 127 for int8
    and `scale_ub` bounds the amax; a row of zeros has the scale 1. `q = y / scale`, saturated.

    Source: vLLM's `rms_norm_dynamic_per_token_quant`.
    """

    kernel_types = {"portable": AddRMSNormQuantPortableKernel}
    interfaces = {"add_rms_norm_quant": AddRMSNormQuantFwdInterface}

    def __init__(
        self,
        quant_dtype: torch.dtype = torch.float8_e4m3fn,
        eps: float = 1e-6,
        scale_ub: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.quant_dtype = quant_dtype
        self.eps = eps
        self.scale_ub = scale_ub
        super().__init__(target=target)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add `residual`, normalise and quantise the last axis."""
        n = weight.shape[0]
        fields = n, self.eps, self.scale_ub, x.dtype, self.quant_dtype
        kernel = self.kernel_for_fields(
            "add_rms_norm_quant", AddRMSNormQuantCall, x.device, *fields
        )
        q, scale, total = kernel(as_rows(x, n), as_rows(residual, n), weight.contiguous())
        return q.view(x.shape), scale.view(*x.shape[:-1], 1), total.view(x.shape)


class FusedQKNormRoPEFwdOp(Op):
    """RMSNorm of every query and key head, then rotary embedding of its first channels, in place.

    Rows hold queries, keys and values of all heads; values are left alone. Row `positions[n]` of
    the table holds cosines in its left half and sines in its right, for as many channels as it is
    wide. Norm and rotation are float32 and rounded once. Positions are the caller's duty.

    Source: the attention of Qwen3 and GLM-4.5.
    """

    kernel_types = {"portable": HeadNormRotaryPortableKernel}
    interfaces = {"head_norm_rotary": HeadNormRotaryFwdInterface}

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        eps: float = 1e-6,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.eps = eps
        self.rope_layout = rope_layout
        super().__init__(target=target)

    def forward(
        self,
        qkv: Tensor,
        q_weight: Tensor,
        k_weight: Tensor,
        cos_sin_cache: Tensor,
        positions: Tensor,
    ) -> None:
        """Normalise and rotate the heads of `qkv`."""
        call = HeadNormRotaryCall(
            self.num_heads,
            self.num_kv_heads,
            q_weight.shape[0],
            cos_sin_cache.shape[1],
            self.eps,
            self.rope_layout,
            qkv.dtype,
            cos_sin_cache.dtype,
            device=qkv.device,
        )
        others = (q_weight, k_weight, cos_sin_cache, positions)
        kernel = self.kernel_for("head_norm_rotary", call)
        kernel(qkv, *(tensor.contiguous() for tensor in others))
