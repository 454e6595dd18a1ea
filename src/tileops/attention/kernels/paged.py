"""Attention of packed requests whose keys and values lie in pages, to which new ones are added."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tileops.attention.kernels.softmax import SoftmaxAttention, places, rotated, visible
from tileops.kernels import CallSpec, KernelInterface, PortableKernel

LARGEST_FP8 = 448.0
"""The largest magnitude of float8_e4m3fn."""


@dataclass(frozen=True)
class PagedPrefillCall(CallSpec):
    """Attention of packed requests over pages that take their new keys and values.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        page_size: rows of a page.
        max_seqlen_q: most new tokens of a request.
        is_causal: whether a query sees no later key.
        sm_scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
        rotary_dim: leading channels that are rotated, in halves; 0 for none.
        rope_base: base of the rotary frequencies.
        max_position: positions that differ; later ones turn like the last.
        dtype: element type of q, the new keys and values, and the result.
        cache_dtype: element type of the pages; float8_e4m3fn is scaled.
    """

    heads: int
    kv_heads: int
    head_dim: int
    page_size: int
    max_seqlen_q: int
    is_causal: bool
    sm_scale: float
    softcap: float
    rotary_dim: int
    rope_base: float
    max_position: int
    dtype: torch.dtype
    cache_dtype: torch.dtype


class PagedPrefillFwdInterface(KernelInterface):
    """Append to pages, then attend over them."""

    request = PagedPrefillCall

    @abstractmethod
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
        """Append and attend.

        All tensors are on `call.device`; the pages are contiguous, the others of any strides. Token
        `t` of request `b` stands at position `p = cache_seqlens[b] + t`, whose row in the pages is
        `block_table[b, p // page_size] * page_size + p % page_size`. Its key, rotated by `p` where
        `call.rotary_dim`, and its value are stored there; float8 pages store `x / scale`, cut off
        at ±448. Then the query at `p`, rotated likewise, attends over the rows of positions before
        `cache_seqlens[b] + q_len`, up to `p` where `is_causal`, as the pages hold them. Scores are
        `sm_scale * (q · k)`, then `softcap * tanh(scores / softcap)` where `softcap` is positive.

        Args:
            q: `[T_q, heads, head_dim]` in `call.dtype`; read.
            k_new: `[T_q, kv_heads, head_dim]` in `call.dtype`; read.
            v_new: likewise.
            k_pages: `[PT, kv_heads, head_dim]` in `call.cache_dtype`; rows of new tokens are
                written, rows of their requests read, others left alone.
            v_pages: likewise.
            k_scale: `[1]` float32, of float8 pages only; read.
            v_scale: likewise.
            cu_seqlens_q: `[B + 1]` int32, where each request's tokens begin; from 0 to `T_q`, never
                decreasing, no further apart than `call.max_seqlen_q`; read.
            cache_seqlens: `[B]` int32, rows of each request that the pages hold already; read.
            block_table: `[B, W]` int32, the pages of each request; entries behind its last row may
                name any page; read.

        Returns:
            A new contiguous `[T_q, heads, head_dim]` in `call.dtype`. Scores, softmax and sums are
            float32. `T_q`, `PT`, `B` and `W` vary between calls. On an accelerator nothing is read
            back to the host.
        """


class PagedPrefillPortableKernel(PortableKernel[PagedPrefillCall], PagedPrefillFwdInterface):
    """Attention by torch: a request at a time on the CPU, padded to equal lengths elsewhere."""

    def __init__(self, call: PagedPrefillCall) -> None:
        super().__init__(call)
        self._softmax = SoftmaxAttention(call.sm_scale, call.softcap)
        self._is_scaled = call.cache_dtype.itemsize == 1

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
        request, place = places(cu_seqlens_q, q.shape[0])
        position = cache_seqlens[request] + place
        if self.call.rotary_dim:
            q = self._rotated(q, position)
            # Keys that become codes are rounded once.
            k_new = self._rotated(k_new.float() if self._is_scaled else k_new, position)
        row = self._rows(block_table[request], position[:, None])[:, 0]
        for pages, new, scale in ((k_pages, k_new, k_scale), (v_pages, v_new, v_scale)):
            self._store(pages, row, new, scale)
        if q.numel() == 0:
            return torch.empty_like(q, memory_format=torch.contiguous_format)
        caches = ((k_pages, k_scale), (v_pages, v_scale))
        if q.device.type == "cpu":
            out = self._by_request(q, caches, cu_seqlens_q, cache_seqlens, block_table)
        else:
            lengths = cache_seqlens + cu_seqlens_q.diff()
            out = self._padded(q, caches, (request, place, position), lengths, block_table)
        return out.to(q.dtype).contiguous()

    def _by_request(
        self,
        q: Tensor,
        caches: tuple[tuple[Tensor, Tensor], ...],
        cu_seqlens_q: Tensor,
        cache_seqlens: Tensor,
        block_table: Tensor,
    ) -> Tensor:
        """Each request over exactly its rows."""
        out = torch.empty_like(q)
        spans = zip(pairwise(cu_seqlens_q.tolist()), cache_seqlens.tolist(), strict=True)
        for table, ((start, stop), cached) in zip(block_table, spans, strict=True):
            if start == stop:
                continue
            j = torch.arange(cached + stop - start)
            row = self._rows(table, j)
            k, v = (self._loaded(pages, row, scale)[None] for pages, scale in caches)
            queries = q[None, start:stop].to(k.dtype)
            if not self.call.is_causal or stop - start == 1:
                attended = self._softmax.attend(queries, k, v)
            elif cached == 0:
                attended = self._softmax.attend_causally(queries, k, v)
            else:
                mask = visible(j[cached:], j, -1, 0)
                attended = self._softmax.attend(queries, k, v, mask[None])
            out[start:stop] = attended[0]
        return out

    def _padded(
        self,
        q: Tensor,
        caches: tuple[tuple[Tensor, Tensor], ...],
        tokens: tuple[Tensor, Tensor, Tensor],
        lengths: Tensor,
        block_table: Tensor,
    ) -> Tensor:
        """All requests at once, over every row that their tables name.

        `tokens` are the request, the place in it and the position of each query.
        """
        request, place, position = tokens
        j = torch.arange(block_table.shape[1] * self.call.page_size, device=q.device)
        row = self._rows(block_table, j.expand(block_table.shape[0], -1))
        is_used = j < lengths[:, None]
        # A masked row still meets a weight of 0, and 0 * NaN would leak out of unused memory.
        k, v = (
            self._loaded(pages, row, scale).masked_fill(~is_used[:, :, None, None], 0)
            for pages, scale in caches
        )
        shape = (block_table.shape[0], self.call.max_seqlen_q)
        queries = k.new_zeros(*shape, *q.shape[1:])
        queries[request, place] = q.to(k.dtype)
        mask = is_used[:, None].expand(-1, shape[1], -1)
        if self.call.is_causal:
            c = torch.zeros(shape, dtype=position.dtype, device=q.device)
            c[request, place] = position
            mask = mask & visible(c, j, -1, 0)
        return self._softmax.attend(queries, k, v, mask)[request, place]

    def _rows(self, table: Tensor, position: Tensor) -> Tensor:
        """The row in the pages of each position, by the table of its request."""
        page = table.long().gather(-1, (position // self.call.page_size).long())
        return page * self.call.page_size + position % self.call.page_size

    def _store(self, pages: Tensor, row: Tensor, new: Tensor, scale: Tensor) -> None:
        """Put new rows into the pages."""
        if not self._is_scaled:
            pages.index_copy_(0, row, new.to(pages.dtype))
            return
        codes = (new.float() / scale).clamp(-LARGEST_FP8, LARGEST_FP8).to(pages.dtype)
        # Torch moves bytes everywhere, float8 not.
        pages.view(torch.uint8).index_copy_(0, row, codes.view(torch.uint8))

    def _loaded(self, pages: Tensor, row: Tensor, scale: Tensor) -> Tensor:
        """Rows of the pages as numbers."""
        if not self._is_scaled:
            return pages[row]
        return pages.view(torch.uint8)[row].view(pages.dtype).float() * scale

    def _rotated(self, x: Tensor, position: Tensor) -> Tensor:
        """`x` `[T, H, D]` turned by the position of each token."""
        pair = torch.arange(0, self.call.rotary_dim, 2, device=x.device)
        frequency = self.call.rope_base ** (-pair.double() / self.call.rotary_dim)
        angle = position.clamp(max=self.call.max_position - 1)[:, None] * frequency
        cos, sin = (f(angle).float()[:, None] for f in (torch.cos, torch.sin))
        return rotated(x, cos, sin, interleaved=False)
