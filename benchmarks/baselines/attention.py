"""Attention as torch and cuDNN have it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tileops.bench.baselines import baseline


def mask_of(op: Any, queries: int, keys: int, device: torch.device) -> Tensor | None:
    """Which query sees which key, None for all; the last query is aligned with the last key."""
    right = 0 if op.is_causal else op.window_size_right
    left = op.window_size_left
    if left < 0 and right < 0:
        return None
    c = torch.arange(queries, device=device)[:, None] + keys - queries
    j = torch.arange(keys, device=device)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if left >= 0:
        seen &= j >= c - left
    if right >= 0:
        seen &= j <= c + right
    return seen


@baseline("torch", "GroupedQueryAttentionDenseFwdOp")
def dense(op: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> Tensor:
    if any(extra is not None for extra in rest) or op.softcap:
        raise NotImplementedError("scaled_dot_product_attention has no scales, rotation or cap")
    heads = (part.transpose(1, 2) for part in (q, k, v))
    square = op.is_causal and q.shape[1] == k.shape[1] and op.window_size_left < 0
    mask = None if square else mask_of(op, q.shape[1], k.shape[1], q.device)
    out = F.scaled_dot_product_attention(
        *heads, attn_mask=mask, is_causal=square, scale=op.sm_scale, enable_gqa=True
    )
    return out.transpose(1, 2).contiguous().to(op.out_dtype or q.dtype)


@baseline("cudnn", "GroupedQueryAttentionDenseFwdOp")
def dense_cudnn(op: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> Tensor:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return dense(op, q, k, v, *rest)


@baseline("torch", "MultiHeadLatentAttentionDecodeWithKVCacheFwdOp")
def latent_decode(op: Any, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
    queries = torch.cat((q, q_pe), -1)[:, :, None]
    keys = torch.cat((k, k_pe), -1).transpose(1, 2)
    scale = (q.shape[2] + q_pe.shape[2]) ** -0.5
    values = k.transpose(1, 2)
    out = F.scaled_dot_product_attention(queries, keys, values, scale=scale, enable_gqa=True)
    return out[:, :, 0]


@baseline("torch", "GroupedQueryAttentionVarlenFwdOp")
def varlen(
    op: Any, q: Tensor, k: Tensor, v: Tensor, starts_q: Tensor, starts_kv: Tensor, *rest: Any
) -> Tensor:
    """A request after the other, as offsets that lie on the host allow."""
    parts = []
    for (q0, q1), (k0, k1) in zip(pairs(starts_q), pairs(starts_kv), strict=True):
        if q1 > q0:
            parts.append(dense(op, q[None, q0:q1], k[None, k0:k1], v[None, k0:k1], *rest)[0])
    return torch.cat(parts) if parts else torch.empty_like(q)


def pairs(starts: Tensor) -> list[tuple[int, int]]:
    """Start and end of each request."""
    return list(pairwise(starts.tolist()))
