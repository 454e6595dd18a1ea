"""Attention over a latent cache."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.attention.kernels import (
    LatentDecodeCall,
    LatentDecodeFwdInterface,
    LatentDecodePipelinedKernel,
    LatentDecodePortableKernel,
)

__all__ = ["MultiHeadLatentAttentionDecodeWithKVCacheFwdOp"]


class MultiHeadLatentAttentionDecodeWithKVCacheFwdOp(Op):
    """MLA: one query of each request over a latent cache, with the up-projections absorbed.

    `o = softmax((q kᵀ + q_pe k_peᵀ) / sqrt(D + PE)) k`: the latent part is key and value at once,
    the rotated part `k_pe` key only. A request without keys gives zeros.

    Source: DeepSeek-V2, 2024.
    """

    kernel_types = {
        "pipelined": LatentDecodePipelinedKernel,
        "portable": LatentDecodePortableKernel,
    }
    interfaces = {"latent_decode": LatentDecodeFwdInterface}

    def forward(self, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        """Attend."""
        call = LatentDecodeCall(
            heads=q.shape[1],
            kv_heads=k.shape[2],
            latent_dim=q.shape[2],
            rope_dim=q_pe.shape[2],
            dtype=q.dtype,
            device=q.device,
        )
        return self.kernel_for("latent_decode", call)(q, q_pe, k, k_pe)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])
