"""Gradients of attention of a batch."""

from __future__ import annotations

from typing import Literal

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
        *,
        target: str | None = None,
    ) -> None:
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
