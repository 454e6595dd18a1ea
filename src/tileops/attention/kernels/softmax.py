"""Softmax attention of batches by torch, on which the portable kernels of the family stand.

Scores, softmax and sums are float32. A row that sees no key gives zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

QUERY_BLOCK = 1024
"""Query rows whose scores are held at once where they are formed explicitly."""


class SoftmaxAttention(NamedTuple):
    """Attention with one scale and one bound of the scores.

    Attributes:
        scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
    """

    scale: float
    softcap: float = 0.0

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention of a batch under a mask.

        Args:
            q: `[B, S, H, D]`.
            k: `[B, L, H_kv, D]`.
            v: `[B, L, H_kv, D]`.
            mask: which keys each query sees, `[1, S, L]` or `[B, S, L]`; None for all.

        Returns:
            `[B, S, H, D]` in the dtype of `q`, of any strides.
        """
        if mask is None:
            return self._capped(q, k, v, None) if self.softcap else self._scaled(q, k, v)
        if self.softcap:
            out = self._capped(q, k, v, mask)
        else:
            if q.device.type != "cpu":  # of torch's kernels, those that take a mask take no groups
                group = q.shape[2] // k.shape[2]
                k, v = (part.repeat_interleave(group, dim=2) for part in (k, v))
            out = self._scaled(q, k, v, mask[:, None])
        # Not every backend of torch gives zeros where nothing is seen.
        return out.masked_fill_(~mask.any(-1)[:, :, None, None], 0)

    def attend_causally(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of as many queries as keys, of which none sees a later one."""
        if not self.softcap:
            return self._scaled(q, k, v, is_causal=True)
        place = torch.arange(q.shape[1], device=q.device)
        return self.attend(q, k, v, (place <= place[:, None])[None])

    def _scaled(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Torch's own attention."""
        return F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=mask,
            is_causal=is_causal,
            scale=self.scale,
            enable_gqa=q.shape[2] != k.shape[2],
        ).transpose(1, 2)

    def _capped(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attention with bounded scores, formed explicitly for a block of queries at a time."""
        heads = k.shape[2], q.shape[2] // k.shape[2]
        wide = torch.promote_types(q.dtype, torch.float32)
        grouped = q.to(wide).reshape(*q.shape[:2], *heads, -1).permute(0, 2, 3, 1, 4)
        keys, values = (part.to(wide).transpose(1, 2)[:, :, None] for part in (k, v))
        parts = []
        for start in range(0, q.shape[1], QUERY_BLOCK):
            block = slice(start, start + QUERY_BLOCK)
            scores = grouped[..., block, :] @ keys.mT
            scores = torch.tanh(scores * (self.scale / self.softcap)) * self.softcap
            if mask is not None:
                scores.masked_fill_(~mask[:, None, None, block], -torch.inf)
            parts.append(torch.softmax(scores, -1) @ values)
        out = torch.cat(parts, 3).permute(0, 3, 1, 2, 4).flatten(2, 3)
        return out.to(q.dtype)


def visible(c: Tensor, j: Tensor, left: int, right: int) -> Tensor:
    """Whether the query at position `c` sees key `j` of its request, all pairs.

    Args:
        c: positions `[…, S]`.
        j: keys `[L]`.
        left: keys before its position that a query sees; negative for all.
        right: likewise after its position.
    """
    position = c[..., None]
    mask = j >= (position - left if left >= 0 else 0 * position)
    return mask & (j <= position + right) if right >= 0 else mask


def rotated(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """`x` with its leading channels turned, in float32 and rounded once.

    Args:
        x: `[…, C]`.
        cos: cosines of each pair of channels `[…, R // 2]`, broadcast.
        sin: sines likewise.
        interleaved: whether neighbouring channels form a pair, not those half of `R` apart.
    """
    half = cos.shape[-1]
    rotary = x[..., : 2 * half].to(torch.promote_types(x.dtype, torch.float32))
    if interleaved:
        a, b = rotary[..., 0::2], rotary[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = rotary[..., :half], rotary[..., half:]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((turned.to(x.dtype), x[..., 2 * half :]), -1)


def places(cu_seqlens: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The request of each of `total` packed tokens, and the token's place in it."""
    token = torch.arange(total, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    request = torch.searchsorted(cu_seqlens[1:].contiguous(), token, right=True)
    request.clamp_(max=cu_seqlens.numel() - 2)
    return request, token - cu_seqlens[request]
