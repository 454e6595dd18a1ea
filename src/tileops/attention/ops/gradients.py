"""Gradients of attention of a batch."""

from __future__ import annotations

from torch import Tensor

from tileops.attention.kernels import DenseAttentionBwdInterface, DenseAttentionBwdPortableKernel
from tileops.attention.ops.dense import DenseAttentionOp

__all__ = ["GroupedQueryAttentionDenseBwdOp"]


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
