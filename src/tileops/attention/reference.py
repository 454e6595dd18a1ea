"""References of the attention family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor


def grouped_query_attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    q_scale: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    *,
    is_causal: bool = True,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
    out_dtype: torch.dtype | None = None,
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
    validate_inputs: bool = False,
) -> Tensor:
    """Attention of each request over its own keys, a head at a time."""
    group = q.shape[1] // k.shape[1]
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    scale = max(q.shape[2], 1) ** -0.5 if sm_scale is None else sm_scale
    spans = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_kv.tolist()), strict=True)
    for request, ((q_start, q_stop), (kv_start, kv_stop)) in enumerate(spans):
        c = torch.arange(q_stop - q_start, device=q.device)[:, None]
        c = c + (kv_stop - kv_start) - (q_stop - q_start)
        j = torch.arange(kv_stop - kv_start, device=q.device)
        seen = torch.ones(c.shape[0], j.shape[0], dtype=torch.bool, device=q.device)
        if is_causal:
            seen &= j <= c
        if window_size_left >= 0:
            seen &= j >= c - window_size_left
        if window_size_right >= 0:
            seen &= j <= c + window_size_right
        for head in range(q.shape[1]):
            kv_head = head // group
            queries = q[q_start:q_stop, head].double()
            keys, values = (part[kv_start:kv_stop, kv_head].double() for part in (k, v))
            if q_scale is not None and k_scale is not None and v_scale is not None:
                queries = queries * q_scale[request, kv_head].double()
                keys = keys * k_scale[request, kv_head].double()
                values = values * v_scale[request, kv_head].double()
            if rope_cos is not None and rope_sin is not None:
                queries = _rotate(queries, c[:, 0], rope_cos, rope_sin, rope_layout)
                keys = _rotate(keys, j, rope_cos, rope_sin, rope_layout)
            scores = queries @ keys.T * scale
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            out[q_start:q_stop, head] = _softmax(scores, seen) @ values
    return out.to(out_dtype or q.dtype)


def _softmax(scores: Tensor, seen: Tensor) -> Tensor:
    """Weights of the seen scores; all zero in a row that sees none."""
    if scores.numel() == 0:
        return scores
    scores = scores.masked_fill(~seen, -torch.inf)
    largest = scores.amax(1, keepdim=True).nan_to_num(neginf=0.0)
    power = torch.where(seen, torch.exp(scores - largest), 0.0)
    total = power.sum(1, keepdim=True)
    return torch.where(total == 0, 0.0, power / total)


def _rotate(x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate the channel pairs that the tables cover by the angle of each row's position.

    A position outside the tables reads their nearest row; no row, no rotation.
    """
    rows, half = cos.shape
    if rows == 0:
        return x
    position = position.clamp(0, rows - 1)
    c, s = cos[position].double(), sin[position].double()
    result = x.clone()
    first, second = slice(0, half), slice(half, 2 * half)
    if layout == "interleaved":
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    result[:, first] = x[:, first] * c - x[:, second] * s
    result[:, second] = x[:, second] * c + x[:, first] * s
    return result
