"""Attention of packed requests, each over its own keys.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tileops.attention.kernels.softmax import SoftmaxAttention, places, rotated, visible
from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class VarlenAttentionCall(CallSpec):
    """Attention of packed requests.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        is_causal: whether a query sees no later key.
        window_left: keys before its position that a query sees; -1 for all.
        window_right: likewise after its position.
        sm_scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
        rotary_dim: leading channels that are rotated; 0 for none.
        rope_layout: which channels form a rotated pair.
        dtype: element type of q, k and v; float8_e4m3fn comes with scales.
        out_dtype: element type of the result and of the rotary tables.
    """

    heads: int
    kv_heads: int
    head_dim: int
    is_causal: bool
    window_left: int
    window_right: int
    sm_scale: float
    softcap: float
    rotary_dim: int
    rope_layout: Literal["neox", "interleaved"]
    dtype: torch.dtype
    out_dtype: torch.dtype


class VarlenAttentionFwdInterface(KernelInterface):
    """Softmax attention of each request over its own keys."""

    request = VarlenAttentionCall

    @abstractmethod
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend.

        All tensors are on `call.device`, of any strides, and only read. Query `i` of a request
        stands at position `c = i + S_kv - S_q` and sees the keys `j` with `0 <= j < S_kv`, `j <= c`
        where `is_causal`, `j >= c - window_left` and `j <= c + window_right` where these are not
        negative. Scores are `sm_scale * (q · k)`, then `softcap * tanh(scores / softcap)` where
        `softcap` is positive, then masked; a row that sees no key gives zeros.

        Args:
            q: `[T_q, heads, head_dim]` in `call.dtype`.
            k: `[T_kv, kv_heads, head_dim]` in `call.dtype`.
            v: `[T_kv, kv_heads, head_dim]` in `call.dtype`.
            cu_seqlens_q: `[B + 1]` int32, where the queries of each request begin; from 0 to `T_q`,
                never decreasing.
            cu_seqlens_kv: `[B + 1]` int32, likewise for the keys, up to `T_kv`.
            q_scale: `[B, kv_heads]` float32, the factor of each request's query codes, shared by a
                group of heads; None unless `call.dtype` is float8.
            k_scale: `[B, kv_heads]` float32, of the key codes; None unless float8.
            v_scale: `[B, kv_heads]` float32, of the value codes; None unless float8.
            rope_cos: `[P, rotary_dim // 2]` in `call.out_dtype`, indexed by position; None unless
                `call.rotary_dim`. A position outside reads the nearest row; no row, no rotation.
            rope_sin: likewise.

        Returns:
            A new contiguous `[T_q, heads, head_dim]` in `call.out_dtype`. Scores, softmax and sums
            are float32. `T_q`, `T_kv` and `B` vary between calls. On an accelerator nothing is
            read back to the host.
        """


class VarlenAttentionPortableKernel(
    PortableKernel[VarlenAttentionCall], VarlenAttentionFwdInterface
):
    """Attention by torch: a request at a time on the CPU, under one mask elsewhere."""

    def __init__(self, call: VarlenAttentionCall) -> None:
        super().__init__(call)
        self._softmax = SoftmaxAttention(call.sm_scale, call.softcap)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        if q_scale is not None and k_scale is not None and v_scale is not None:
            q = _dequantised(q, q_scale, cu_seqlens_q)
            k = _dequantised(k, k_scale, cu_seqlens_kv)
            v = _dequantised(v, v_scale, cu_seqlens_kv)
        if rope_cos is not None and rope_sin is not None:
            tables = rope_cos, rope_sin
            first = first_positions(cu_seqlens_q, cu_seqlens_kv)
            q = rotated_by_position(self.call, q, tables, cu_seqlens_q, first)
            k = rotated_by_position(self.call, k, tables, cu_seqlens_kv, torch.zeros_like(first))
        attend = self._by_request if q.device.type == "cpu" else self._under_mask
        out = attend(q, k, v, cu_seqlens_q, cu_seqlens_kv)
        return out.to(self.call.out_dtype).contiguous()

    def _by_request(
        self, q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor
    ) -> Tensor:
        """Neighbouring requests of equal lengths as one batch."""
        parts = []
        for run in equal_runs(cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()):
            batch = run.of_queries(q), run.of_keys(k), run.of_keys(v)
            left, right = binding_window(self.call, run.rows, run.columns)
            if left < 0 and right < 0:
                out = self._softmax.attend(*batch)
            elif (left, right) == (-1, 0) and run.rows == run.columns:
                out = self._softmax.attend_causally(*batch)
            else:
                c = torch.arange(run.columns - run.rows, run.columns)
                mask = visible(c, torch.arange(run.columns), left, right)
                out = self._softmax.attend(*batch, mask[None])
            parts.append(out.flatten(0, 1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _under_mask(
        self, q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor
    ) -> Tensor:
        """All requests at once, each query masked to the keys of its own, without host reads."""
        request_q, place_q = places(cu_seqlens_q, q.shape[0])
        request_kv, place_kv = places(cu_seqlens_kv, k.shape[0])
        c = place_q + first_positions(cu_seqlens_q, cu_seqlens_kv)[request_q]
        window = binding_window(self.call, q.shape[0], k.shape[0])
        mask = (request_q[:, None] == request_kv) & visible(c, place_kv, *window)
        # A masked key still meets a weight of 0, and 0 * NaN would leak into other requests.
        spoilt = ~(k.isfinite().all(-1) & v.isfinite().all(-1))  # [T_kv, H_kv]
        k, v = (part.masked_fill(spoilt[:, :, None], 0) for part in (k, v))
        group = self.call.heads // self.call.kv_heads
        spoils = (mask.float() @ spoilt.float() > 0).repeat_interleave(group, dim=1)
        out = self._softmax.attend(q[None], k[None], v[None], mask[None])[0]
        return out.masked_fill(spoils[:, :, None], torch.nan)


class Run(NamedTuple):
    """Neighbouring requests with `rows` queries and `columns` keys each."""

    queries: slice
    keys: slice
    requests: int
    rows: int
    columns: int

    def of_queries(self, x: Tensor) -> Tensor:
        """The run's part of what is packed like the queries, `[requests, rows, H, D]`."""
        return x[self.queries].view(self.requests, self.rows, *x.shape[1:])

    def of_keys(self, x: Tensor) -> Tensor:
        """The run's part of what is packed like the keys, `[requests, columns, H_kv, D]`."""
        return x[self.keys].view(self.requests, self.columns, *x.shape[1:])


def equal_runs(starts_q: list[int], starts_kv: list[int]) -> Iterator[Run]:
    """Runs of requests with equal lengths, in order, without those that have no query."""
    spans = zip(pairwise(starts_q), pairwise(starts_kv), strict=True)
    for (rows, columns), group in groupby(
        spans, key=lambda span: (span[0][1] - span[0][0], span[1][1] - span[1][0])
    ):
        run = list(group)
        if rows:
            queries = slice(run[0][0][0], run[-1][0][1])
            yield Run(queries, slice(run[0][1][0], run[-1][1][1]), len(run), rows, columns)


def first_positions(cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor) -> Tensor:
    """The position of each request's first query: its keys less its queries."""
    return cu_seqlens_kv.diff() - cu_seqlens_q.diff()


def binding_window(call: VarlenAttentionCall, rows: int, columns: int) -> tuple[int, int]:
    """The window, without the sides that reach past every key of `rows` by `columns`."""
    left, right = call.window_left, 0 if call.is_causal else call.window_right
    return left if left < columns - 1 else -1, right if right < rows - 1 else -1


def rotated_by_position(
    call: VarlenAttentionCall,
    x: Tensor,
    tables: tuple[Tensor, Tensor],
    cu_seqlens: Tensor,
    first: Tensor,
) -> Tensor:
    """`x` with its leading channels rotated by the position of each token.

    `first` holds the position of each request's first token.
    """
    if tables[0].shape[0] == 0:
        return x
    request, place = places(cu_seqlens, x.shape[0])
    position = (place + first[request]).clamp_(0, tables[0].shape[0] - 1)
    cos, sin = (table[position].float()[:, None] for table in tables)
    return rotated(x, cos, sin, interleaved=call.rope_layout == "interleaved")


def _dequantised(codes: Tensor, scale: Tensor, cu_seqlens: Tensor) -> Tensor:
    """float8 codes times the factor of their request and group of heads, in float32."""
    request, _ = places(cu_seqlens, codes.shape[0])
    per_head = scale[request].repeat_interleave(codes.shape[1] // scale.shape[1], dim=1)
    return codes.float() * per_head[:, :, None]
