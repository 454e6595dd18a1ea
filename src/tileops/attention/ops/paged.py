"""Attention over pages that take the new keys and values of a call."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.attention import roofline
from tileops.attention.kernels import (
    PagedDecodeKernel,
    PagedPrefillCall,
    PagedPrefillFwdInterface,
    PagedPrefillPipelinedKernel,
    PagedPrefillPortableKernel,
)

__all__ = ["GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp"]


class GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(Op):
    """New keys and values into the pages of their requests, then attention over prefix and new.

    Token `t` of request `b` stands at position `cache_seqlens[b] + t`, whose row in the pages is
    found by the request's row of `block_table`; `cache_seqlens` are the lengths before the call and
    stay. Attention is that of `GroupedQueryAttentionVarlenFwdOp` on what the pages hold, so new
    keys and values count as they were stored: float8 pages hold codes of `x / scale`.

    `fuse_rope` rotates the first `rotary_dim` channels of queries and new keys, in halves, by
    `position * rope_base ** (-2 i / rotary_dim)`; positions from `max_position` on turn like the
    last before it. Pages hold rotated keys.

    Offsets, lengths and the table are the caller's promise, as checking them would wait for the
    device: requests of at most `max_seqlen_q` new tokens, room for them in the pages of the table,
    and pages that are there.
    """

    kernel_types = {
        "decode": PagedDecodeKernel,
        "pipelined": PagedPrefillPipelinedKernel,
        "portable": PagedPrefillPortableKernel,
    }
    interfaces = {"paged_prefill": PagedPrefillFwdInterface}

    def __init__(
        self,
        page_size: int,
        max_seqlen_q: int,
        is_causal: bool = True,
        cache_dtype: torch.dtype | None = None,
        sm_scale: float | None = None,
        softcap: float | None = None,
        fuse_rope: bool = False,
        rope_base: float = 10000.0,
        max_position: int | None = None,
        rotary_dim: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.page_size = page_size
        self.max_seqlen_q = max_seqlen_q
        self.is_causal = is_causal
        self.cache_dtype = cache_dtype
        self.sm_scale = sm_scale
        self.softcap = softcap
        self.fuse_rope = fuse_rope
        self.rope_base = rope_base
        self.max_position = max_position
        self.rotary_dim = rotary_dim
        super().__init__(target=target)

    def forward(
        self,
        q: Tensor,
        k_new: Tensor,
        v_new: Tensor,
        k_pages: Tensor,
        v_pages: Tensor,
        k_scale: Tensor,
        v_scale: Tensor,
        cu_seqlens_q: Tensor,
        cache_seqlens: Tensor,
        block_table: Tensor,
    ) -> Tensor:
        """Append and attend."""
        kernel = self.kernel_for("paged_prefill", self._call(q, k_pages))
        metadata = (cu_seqlens_q, cache_seqlens, block_table)
        return kernel(q, k_new, v_new, k_pages, v_pages, k_scale, v_scale, *metadata)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])

    def eval_roofline_read_bytes(self) -> int:
        """The bytes of the roofline less the result and the rows of the pages that are written."""
        return self.eval_roofline()[1] - roofline.paged_prefill_writes(self.last_call)

    def _call(self, q: Tensor, k_pages: Tensor) -> PagedPrefillCall:
        """The call spec of these tensors."""
        _, heads, head_dim = q.shape
        rotary_dim = head_dim // 2 * 2 if self.rotary_dim is None else self.rotary_dim
        return PagedPrefillCall(
            heads=heads,
            kv_heads=k_pages.shape[1],
            head_dim=head_dim,
            page_size=self.page_size,
            max_seqlen_q=self.max_seqlen_q,
            is_causal=self.is_causal,
            sm_scale=head_dim**-0.5 if self.sm_scale is None else self.sm_scale,
            softcap=self.softcap or 0.0,
            rotary_dim=rotary_dim if self.fuse_rope else 0,
            rope_base=self.rope_base,
            max_position=self.max_position or 0,
            dtype=q.dtype,
            cache_dtype=k_pages.dtype,
            device=q.device,
        )
