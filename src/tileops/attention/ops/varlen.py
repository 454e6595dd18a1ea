"""Attention of packed requests, each over its own keys."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tileops.attention.kernels import (
    VarlenAttentionCall,
    VarlenAttentionFwdInterface,
    VarlenAttentionPipelinedKernel,
    VarlenAttentionPortableKernel,
)
from tileops.attention.ops.softmax import SoftmaxAttentionOp
from tileops.errors import SignatureError
from tileops.manifest import primitives

__all__ = ["GroupedQueryAttentionVarlenFwdOp"]


class VarlenAttentionOp(SoftmaxAttentionOp):
    """Attention of packed requests, or its gradients."""

    def _call(self, q: Tensor, k: Tensor) -> VarlenAttentionCall:
        """The call spec of these tensors."""
        _, heads, head_dim = q.shape
        rotary_dim = head_dim if self.rotary_dim is None else self.rotary_dim
        return VarlenAttentionCall(
            heads=heads,
            kv_heads=k.shape[1],
            head_dim=head_dim,
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


class GroupedQueryAttentionVarlenFwdOp(VarlenAttentionOp):
    """Attention of packed requests, each over its own keys, with grouped key and value heads.

    `o = softmax(sm_scale * q kᵀ) v`, the scores bounded by `softcap * tanh(scores / softcap)` where
    it is positive, and masked after that. Query `i` of a request stands at `i + S_kv - S_q`, so a
    causal mask is aligned at the bottom right. A row that sees no key gives zeros. Key and value
    head of query head `h` is `h // (H / H_kv)`. The sliding window is that of
    `GroupedQueryAttentionDenseFwdOp`.

    With `pos_encoding_mode="rope"` the first `rotary_dim` channels of queries and keys are rotated
    by tables that are indexed by position; a position outside the tables reads their nearest row.
    float8 inputs come with scales and an `out_dtype`.

    The offsets are the caller's promise. `validate_inputs=True` checks them in every call, which
    reads them back from the device.
    """

    kernel_types = {
        "pipelined": VarlenAttentionPipelinedKernel,
        "portable": VarlenAttentionPortableKernel,
    }
    interfaces = {"varlen_attention": VarlenAttentionFwdInterface}

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        out_dtype: torch.dtype | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        validate_inputs: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.out_dtype = out_dtype
        self.validate_inputs = validate_inputs
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
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        q_scale: Tensor | None = None,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> Tensor:
        """Attend."""
        if self.validate_inputs:
            self._check_offsets("cu_seqlens_q", cu_seqlens_q, "T_q", q.shape[0])
            self._check_offsets("cu_seqlens_kv", cu_seqlens_kv, "T_kv", k.shape[0])
        kernel = self.kernel_for("varlen_attention", self._call(q, k))
        scales = (q_scale, k_scale, v_scale)
        return kernel(q, k, v, cu_seqlens_q, cu_seqlens_kv, *scales, rope_cos, rope_sin)

    def _check_offsets(self, name: str, offsets: Tensor, extent: str, total: int) -> None:
        """Raise unless these are the offsets of packed requests of `total` tokens."""
        if not primitives.prefix_offsets(offsets.tolist(), total):
            fault = f"does not hold: offsets start at 0, never decrease and end at {extent}={total}"
            path = f"inputs.{name}.requires[0]"
            raise SignatureError(
                type(self).__name__, "call", path, f"prefix_offsets({extent})", fault
            )
