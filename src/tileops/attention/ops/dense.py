"""Attention of a batch of equally long requests."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tileops.attention.kernels import (
    DenseAttentionCall,
    DenseAttentionDecodeKernel,
    DenseAttentionFwdInterface,
    DenseAttentionPipelinedKernel,
    DenseAttentionPortableKernel,
)
from tileops.attention.ops.softmax import SoftmaxAttentionOp

__all__ = ["GroupedQueryAttentionDenseFwdOp"]


class DenseAttentionOp(SoftmaxAttentionOp):
    """Attention of a batch, or its gradients."""

    def _call(self, q: Tensor, k: Tensor) -> DenseAttentionCall:
        """The call spec of these tensors."""
        _, rows, heads, head_dim = q.shape
        rotary_dim = head_dim if self.rotary_dim is None else self.rotary_dim
        return DenseAttentionCall(
            heads=heads,
            kv_heads=k.shape[2],
            head_dim=head_dim,
            is_decode=rows == 1,
            is_causal=self.is_causal,
            window_left=self.window_size_left,
            window_right=self.window_size_right,
            sm_scale=head_dim**-0.5 if self.sm_scale is None else self.sm_scale,
            softcap=self.softcap or 0.0,
            rotary_dim=rotary_dim if self.pos_encoding_mode == "rope" else 0,
            rope_layout=self.rope_layout,
            dtype=q.dtype,
            out_dtype=self.out_dtype or q.dtype,
            device=q.device,
        )


class GroupedQueryAttentionDenseFwdOp(DenseAttentionOp):
    """Attention of a batch with grouped key and value heads; decoding is a call with one query.

    `o = softmax(sm_scale * q kᵀ) v`, the scores bounded by `softcap * tanh(scores / softcap)` where
    it is positive, and masked after that. Query `i` stands at `i + S_kv - S_q`, so a causal mask is
    aligned at the bottom right. A row that sees no key gives zeros. Key and value head of query
    head `h` is `h // (H / H_kv)`. Positions come before heads, not after them as in
    `torch.nn.functional.scaled_dot_product_attention`.

    The window sizes make a sliding window: a query sees that many keys before its place and after
    it, and the one at its place; -1 sets no limit.

    With `pos_encoding_mode="rope"` the first `rotary_dim` channels of queries and keys are rotated
    by tables that are indexed by position. float8 inputs come with scales and an `out_dtype`.
    """

    kernel_types = {
        "decode": DenseAttentionDecodeKernel,
        "pipelined": DenseAttentionPipelinedKernel,
        "portable": DenseAttentionPortableKernel,
    }
    interfaces = {"dense_attention": DenseAttentionFwdInterface}

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        out_dtype: torch.dtype | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.out_dtype = out_dtype
        super().__init__(
            is_causal,
            window_size_left,
            window_size_right,
            sm_scale,
            softcap,
            pos_encoding_mode,
            rotary_dim,
            rope_layout,
            target=target,
        )

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None = None,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> Tensor:
        """Attend."""
        kernel = self.kernel_for("dense_attention", self._call(q, k))
        return kernel(q, k, v, q_scale, k_scale, v_scale, rope_cos, rope_sin)
