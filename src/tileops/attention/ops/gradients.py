"""Gradients of attention of a batch, and of packed requests."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.attention.kernels import (
    DenseAttentionBwdInterface,
    DenseAttentionBwdPortableKernel,
    SavedAttentionBwdCall,
    SavedAttentionBwdInterface,
    SavedAttentionBwdPortableKernel,
    VarlenAttentionBwdInterface,
    VarlenAttentionBwdPortableKernel,
)
from tileops.attention.ops.dense import DenseAttentionOp
from tileops.attention.ops.varlen import VarlenAttentionOp

__all__ = [
    "GroupedQueryAttentionBwdOp",
    "GroupedQueryAttentionDenseBwdOp",
    "GroupedQueryAttentionVarlenBwdOp",
    "MultiHeadAttentionBwdOp",
]


class GroupedQueryAttentionDenseBwdOp(DenseAttentionOp):
    """Gradients of `GroupedQueryAttentionDenseFwdOp`: returns `(dq, dk, dv)`.

    Scores and weights are formed again from queries and keys. The gradients of keys and values are
    sums over their group of heads; those of rotated channels are rotated back. Sums are float32 and
    rounded once. There is no gradient through float8 codes.

    Source: the derivative of the forward op.
    """

    kernel_types = {"portable": DenseAttentionBwdPortableKernel}
    interfaces = {"dense_attention_bwd": DenseAttentionBwdInterface}

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        kernel = self.kernel_for("dense_attention_bwd", self._call(q, k))
        return kernel(do, q, k, v, rope_cos, rope_sin)


class GroupedQueryAttentionVarlenBwdOp(VarlenAttentionOp):
    """Gradients of `GroupedQueryAttentionVarlenFwdOp`: returns `(dq, dk, dv)`.

    As those of dense attention, of each request over its own keys; the offsets are the caller's
    promise. Sums are float32 and rounded once. There is no gradient through float8 codes.

    Source: the derivative of the forward op.
    """

    kernel_types = {"portable": VarlenAttentionBwdPortableKernel}
    interfaces = {"varlen_attention_bwd": VarlenAttentionBwdInterface}

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        kernel = self.kernel_for("varlen_attention_bwd", self._call(q, k))
        return kernel(do, q, k, v, cu_seqlens_q, cu_seqlens_kv, rope_cos, rope_sin)


class _SavedBwdOp(Op):
    """Gradients of attention whose result and normalisers were kept."""

    def __init__(self, is_causal: bool = True, *, target: str | None = None) -> None:
        self.is_causal = is_causal
        super().__init__(target=target)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])


class GroupedQueryAttentionBwdOp(_SavedBwdOp):
    """Gradients of attention with grouped key and value heads: returns `(dq, dk, dv)`.

    Takes the result `o` and the natural logarithms `lse` of the sums that the softmax of the scores
    `q kᵀ / sqrt(D)` was divided by, as a forward pass kept them, so weights need no softmax. The
    gradients of keys and values are sums over their group of heads; sums are float32.

    Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,
    2023, algorithm 2.
    """

    kernel_types = {"portable": SavedAttentionBwdPortableKernel}
    interfaces = {"saved_attention_bwd": SavedAttentionBwdInterface}

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        call = SavedAttentionBwdCall(
            heads=q.shape[2],
            kv_heads=k.shape[2],
            head_dim=q.shape[3],
            is_causal=self.is_causal,
            dtype=q.dtype,
            device=q.device,
        )
        return self.kernel_for("saved_attention_bwd", call)(q, k, v, o, do, lse)


class MultiHeadAttentionBwdOp(_SavedBwdOp):
    """Gradients of attention with a key and value head for each query head: `(dq, dk, dv)`.

    Those of `GroupedQueryAttentionBwdOp` with groups of one head.
    """

    delegate_types = {"gqa_backward": GroupedQueryAttentionBwdOp}

    def __init__(self, is_causal: bool = True, *, target: str | None = None) -> None:
        super().__init__(is_causal, target=target)
        self.delegate_for("gqa_backward", None, is_causal=is_causal)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        return self.delegate_for("gqa_backward", None)(q, k, v, o, do, lse)
