"""Attention of a batch of equally long requests.

Not for TileLang programs, which `programs/` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tileops.attention.kernels.softmax import SoftmaxAttention, rotated, visible
from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class DenseAttentionCall(CallSpec):
    """Attention of a batch.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        is_decode: whether there is one query only, at the last position.
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
    is_decode: bool
    is_causal: bool
    window_left: int
    window_right: int
    sm_scale: float
    softcap: float
    rotary_dim: int
    rope_layout: Literal["neox", "interleaved"]
    dtype: torch.dtype
    out_dtype: torch.dtype


class DenseAttentionFwdInterface(KernelInterface):
    """Softmax attention of a batch."""

    request = DenseAttentionCall

    @abstractmethod
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend.

        All tensors are on `call.device`, of any strides, and only read. Query `i` stands at
        position `c = i + S_kv - S_q`, which is not negative where it is rotated or `is_causal`, and
        sees the keys `j` with `j <= c` where `is_causal`, `j >= c - window_left` and
        `j <= c + window_right` where these are not negative. Scores are `sm_scale * (q · k)`, then
        `softcap * tanh(scores / softcap)` where `softcap` is positive, then masked; a row that
        sees no key gives zeros.

        Args:
            q: `[B, S_q, heads, head_dim]` in `call.dtype`; `S_q` is 1 where `call.is_decode`.
            k: `[B, S_kv, kv_heads, head_dim]` in `call.dtype`.
            v: `[B, S_kv, kv_heads, head_dim]` in `call.dtype`.
            q_scale: `[B, kv_heads]` float32, the factor of each request's query codes, shared by a
                group of heads; None unless `call.dtype` is float8.
            k_scale: `[B, kv_heads]` float32, of the key codes; None unless float8.
            v_scale: `[B, kv_heads]` float32, of the value codes; None unless float8.
            rope_cos: `[S_kv or more, rotary_dim // 2]` in `call.out_dtype`, indexed by position;
                None unless `call.rotary_dim`.
            rope_sin: likewise.

        Returns:
            A new contiguous `[B, S_q, heads, head_dim]` in `call.out_dtype`. Scores, softmax and
            sums are float32. `B`, `S_q` and `S_kv` vary between calls.
        """


class DenseAttentionPortableKernel(PortableKernel[DenseAttentionCall], DenseAttentionFwdInterface):
    """Attention by torch, under a mask where one binds."""

    def __init__(self, call: DenseAttentionCall) -> None:
        super().__init__(call)
        self._window = (call.window_left, 0 if call.is_causal else call.window_right)
        self._softmax = SoftmaxAttention(call.sm_scale, call.softcap)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        if q_scale is not None and k_scale is not None and v_scale is not None:
            q = dequantised(q, q_scale)
            k = dequantised(k, k_scale)
            v = dequantised(v, v_scale)
        rows, columns = q.shape[1], k.shape[1]
        if rope_cos is not None and rope_sin is not None:
            first = columns - rows
            q = self._rotated(q, rope_cos[first:columns], rope_sin[first:columns])
            k = self._rotated(k, rope_cos[:columns], rope_sin[:columns])
        left, right = self._window
        left = left if left < columns - 1 else -1
        right = right if right < rows - 1 else -1
        if left < 0 and right < 0:
            out = self._softmax.attend(q, k, v)
        elif (left, right) == (-1, 0) and rows == columns:
            out = self._softmax.attend_causally(q, k, v)
        else:
            c = torch.arange(columns - rows, columns, device=q.device)
            mask = visible(c, torch.arange(columns, device=q.device), left, right)
            out = self._softmax.attend(q, k, v, mask[None])
        return out.to(self.call.out_dtype).contiguous()

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`x` `[B, S, H, D]` turned by tables `[S, R // 2]`."""
        interleaved = self.call.rope_layout == "interleaved"
        return rotated(x, cos.float()[:, None], sin.float()[:, None], interleaved=interleaved)


def dequantised(codes: Tensor, scale: Tensor) -> Tensor:
    """float8 codes `[B, S, H, D]` times `[B, H_kv]`, the factor of their group, in float32."""
    per_head = scale.repeat_interleave(codes.shape[2] // scale.shape[1], dim=1)
    return codes.float() * per_head[:, None, :, None]
