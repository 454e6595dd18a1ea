"""Gradients of attention of packed requests, of which each has keys of its own.

Scores are formed again, a block of queries at a time.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops.attention.kernels.gradients import SoftmaxGradients, seen_at_the_end
from tileops.attention.kernels.softmax import places, visible
from tileops.attention.kernels.varlen import (
    VarlenAttentionCall,
    binding_window,
    equal_runs,
    first_positions,
    rotated_by_position,
)
from tileops.kernels import KernelInterface, PortableKernel


class VarlenAttentionBwdInterface(KernelInterface):
    """Gradients of softmax attention of each request over its own keys; see the dense ones."""

    request = VarlenAttentionCall

    @abstractmethod
    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients.

        All tensors are on `call.device`, of any strides, and only read; who sees what, and which
        channels are rotated, is as in the forward interface. A row that sees no key adds nothing.

        Args:
            do: `[T_q, heads, head_dim]` in `call.dtype`, which is not float8.
            q: likewise.
            k: `[T_kv, kv_heads, head_dim]` in `call.dtype`.
            v: likewise.
            cu_seqlens_q: as in the forward interface.
            cu_seqlens_kv: likewise.
            rope_cos: likewise.
            rope_sin: likewise.

        Returns:
            `(dq, dk, dv)`, new contiguous tensors of the shapes of q, k and v in `call.dtype`.
            Scores, weights and sums are float32, rounded once. `T_q`, `T_kv` and `B` vary between
            calls. On an accelerator nothing is read back to the host.
        """


class VarlenAttentionBwdPortableKernel(
    PortableKernel[VarlenAttentionCall], VarlenAttentionBwdInterface
):
    """The gradients by torch: a request at a time on the CPU, under one mask elsewhere."""

    def __init__(self, call: VarlenAttentionCall) -> None:
        super().__init__(call)
        self._softmax = SoftmaxGradients(call.sm_scale, call.softcap)

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        offsets = cu_seqlens_q, cu_seqlens_kv
        found = self._by_request if q.device.type == "cpu" else self._under_mask
        if rope_cos is None or rope_sin is None:
            dq, dk, dv = found(do, q, k, v, *offsets)
        else:
            turned = self._turned(q, k, (rope_cos, rope_sin), *offsets)
            dq, dk, dv = found(do, *turned, v, *offsets)
            dq, dk = self._turned(dq, dk, (rope_cos, -rope_sin), *offsets)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

    def _turned(
        self,
        q: Tensor,
        k: Tensor,
        tables: tuple[Tensor, Tensor],
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """What is packed like queries and like keys, turned by position and not rounded."""
        first = first_positions(cu_seqlens_q, cu_seqlens_kv)
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
        return (
            rotated_by_position(self.call, q, tables, cu_seqlens_q, first),
            rotated_by_position(self.call, k, tables, cu_seqlens_kv, torch.zeros_like(first)),
        )

    def _by_request(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Neighbouring requests of equal lengths as one batch."""
        wide = torch.promote_types(q.dtype, torch.float32)
        dq, dk, dv = (torch.zeros(x.shape, dtype=wide) for x in (q, k, v))
        for run in equal_runs(cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()):
            window = binding_window(self.call, run.rows, run.columns)
            seen = seen_at_the_end(run.rows, run.columns, window, q.device)
            keys = run.of_keys(k), run.of_keys(v)
            parts = self._softmax.of(run.of_queries(do), run.of_queries(q), *keys, seen)
            dq[run.queries], dk[run.keys], dv[run.keys] = (part.flatten(0, 1) for part in parts)
        return dq, dk, dv

    def _under_mask(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All requests at once, each query masked to the keys of its own, without host reads."""
        request_q, place_q = places(cu_seqlens_q, q.shape[0])
        request_kv, place_kv = places(cu_seqlens_kv, k.shape[0])
        c = place_q + first_positions(cu_seqlens_q, cu_seqlens_kv)[request_q]
        window = binding_window(self.call, q.shape[0], k.shape[0])
        mask = (request_q[:, None] == request_kv) & visible(c, place_kv, *window)
        # A masked pair still meets a weight of 0, and 0 * NaN would leak into other requests.
        rows, columns = _not_finite(do, q), _not_finite(k, v)
        do, q = (x.masked_fill(rows[..., None], 0)[None] for x in (do, q))
        k, v = (x.masked_fill(columns[..., None], 0)[None] for x in (k, v))
        dq, dk, dv = (x[0] for x in self._softmax.of(do, q, k, v, lambda block: mask[block]))
        group, pairs = self.call.heads // self.call.kv_heads, mask.to(dq.dtype)
        rows |= (pairs @ columns.to(dq.dtype) > 0).repeat_interleave(group, 1)
        by_group = rows.unflatten(1, (self.call.kv_heads, group)).any(-1)
        columns = pairs.mT @ by_group.to(dq.dtype) > 0
        dq = dq.masked_fill(rows[..., None], torch.nan)
        dk, dv = (x.masked_fill(columns[..., None], torch.nan) for x in (dk, dv))
        return dq, dk, dv


def _not_finite(a: Tensor, b: Tensor) -> Tensor:
    """Where a head of a token is not finite in one of two tensors `[T, H, D]`."""
    return ~(a.isfinite().all(-1) & b.isfinite().all(-1))
