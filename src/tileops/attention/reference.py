"""References of the attention family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


def grouped_query_attention_dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
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
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Attention of each member of a batch over its own keys: equally long packed requests."""
    batch, rows = q.shape[:2]
    offset = torch.arange(batch + 1)
    out = grouped_query_attention_varlen(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        offset * rows,
        offset * k.shape[1],
        q_scale,
        k_scale,
        v_scale,
        rope_cos,
        rope_sin,
        is_causal=is_causal,
        window_size_left=window_size_left,
        window_size_right=window_size_right,
        sm_scale=sm_scale,
        softcap=softcap,
        out_dtype=out_dtype,
        rope_layout=rope_layout,
    )
    return out.view(q.shape)


def grouped_query_attention_dense_bwd(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    **params: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention differentiated by torch."""
    leaves = tuple(x.double().requires_grad_() for x in (q, k, v))
    tables = {"rope_cos": rope_cos, "rope_sin": rope_sin}
    attend: Callable[..., Tensor] = grouped_query_attention_dense
    with torch.enable_grad():
        found = attend(*leaves, **tables, **params)
    return _gradients(found, do, leaves, (q, k, v))


def grouped_query_attention_bwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    do: Tensor,
    lse: Tensor,
    *,
    is_causal: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights from the normalisers, then each product's gradient."""
    group, scale = q.shape[2] // k.shape[2], _scale(q, None)
    queries, result, grads = (x.double().transpose(1, 2) for x in (q, o, do))
    keys, values = (x.double().repeat_interleave(group, 2).transpose(1, 2) for x in (k, v))
    weights = torch.exp(queries @ keys.mT * scale - lse.double()[..., None])
    if is_causal:
        weights = weights.tril()
    scores = weights * (grads @ values.mT - (grads * result).sum(-1, keepdim=True)) * scale
    found = scores @ keys, scores.mT @ queries, weights.mT @ grads
    dq, dk, dv = (x.transpose(1, 2) for x in found)
    dk, dv = (x.unflatten(2, (k.shape[2], group)).sum(3) for x in (dk, dv))
    return _rounded((dq, dk, dv), (q, k, v))


def multi_head_attention_bwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    do: Tensor,
    lse: Tensor,
    *,
    is_causal: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Groups of one head."""
    return grouped_query_attention_bwd(q, k, v, o, do, lse, is_causal=is_causal)


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
    """Attention of each request over its own keys."""
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    scale = _scale(q, sm_scale)
    window = (window_size_left, 0 if is_causal else window_size_right)
    spans = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_kv.tolist()), strict=True)
    for request, ((q_start, q_stop), (kv_start, kv_stop)) in enumerate(spans):
        queries = q[q_start:q_stop].double()
        keys, values = (part[kv_start:kv_stop].double() for part in (k, v))
        if q_scale is not None and k_scale is not None and v_scale is not None:
            queries = queries * _per_head(q_scale[request], q.shape[1])
            keys = keys * _per_head(k_scale[request], k.shape[1])
            values = values * _per_head(v_scale[request], v.shape[1])
        j = torch.arange(len(keys), device=q.device)
        c = torch.arange(len(queries), device=q.device) + len(keys) - len(queries)
        if rope_cos is not None and rope_sin is not None:
            tables = rope_cos.double(), rope_sin.double()
            queries = _rotate(queries, c, *tables, rope_layout)
            keys = _rotate(keys, j, *tables, rope_layout)
        seen = _seen(c, j, *window)
        out[q_start:q_stop] = _attend(queries, keys, values, seen, scale, softcap)
    return out.to(out_dtype or q.dtype)


def grouped_query_attention_varlen_bwd(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    **params: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention differentiated by torch."""
    leaves = tuple(x.double().requires_grad_() for x in (q, k, v))
    tables = {"rope_cos": rope_cos, "rope_sin": rope_sin}
    attend: Callable[..., Tensor] = grouped_query_attention_varlen
    with torch.enable_grad():
        found = attend(*leaves, cu_seqlens_q, cu_seqlens_kv, **tables, **params)
    return _gradients(found, do, leaves, (q, k, v))


def grouped_query_attention_prefill_paged_with_kv_cache(
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
    *,
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
) -> Tensor:
    """New keys and values into the pages, then each request over its rows."""
    queries = q.double()
    requests = []
    for request, (start, stop) in enumerate(pairwise(cu_seqlens_q.tolist())):
        cached = int(cache_seqlens[request])
        j = torch.arange(cached + stop - start)
        rows = block_table[request].long()[j // page_size] * page_size + j % page_size
        requests.append((slice(start, stop), j, rows))
        new_keys = k_new[start:stop].double()
        if fuse_rope:
            width = q.shape[2] // 2 * 2 if rotary_dim is None else rotary_dim
            frequency = rope_base ** (-torch.arange(0, width, 2).double() / width)
            angle = torch.arange(max_position or 0).double()[:, None] * frequency
            tables = angle.cos(), angle.sin()
            queries[start:stop] = _rotate(queries[start:stop], j[cached:], *tables, "neox")
            new_keys = _rotate(new_keys, j[cached:], *tables, "neox")
        for pages, new, scale in (
            (k_pages, new_keys, k_scale),
            (v_pages, v_new[start:stop].double(), v_scale),
        ):
            coded = pages.dtype.itemsize == 1
            stored = (new.float() / scale).clamp(-448, 448) if coded else new
            pages[rows[cached:]] = stored.to(pages.dtype)
    out = torch.zeros(q.shape, dtype=torch.float64)
    for part, j, rows in requests:
        keys, values = (
            pages[rows].double() * (scale.double() if pages.dtype.itemsize == 1 else 1)
            for pages, scale in ((k_pages, k_scale), (v_pages, v_scale))
        )
        own = queries[part]
        seen = _seen(j[len(j) - len(own) :], j, -1, 0 if is_causal else -1)
        out[part] = _attend(own, keys, values, seen, _scale(q, sm_scale), softcap)
    return out.to(q.dtype)


def multi_head_latent_attention_decode_with_kv_cache(
    q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor
) -> Tensor:
    """One query of each request over its latent cache."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    scale = (q.shape[2] + q_pe.shape[2]) ** -0.5
    for request, latent in enumerate(k.double()):
        queries = torch.cat((q[request], q_pe[request]), 1).double()[None]
        keys = torch.cat((latent, k_pe[request].double()), 2)
        seen = torch.ones(1, len(keys), dtype=torch.bool)
        out[request] = _attend(queries, keys, latent, seen, scale, None)[0]
    return out.to(q.dtype)


def _gradients(
    found: Tensor, do: Tensor, leaves: tuple[Tensor, ...], inputs: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v through a result."""
    if not found.requires_grad:  # there is no head or no request
        q, k, v = inputs
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    dq, dk, dv = torch.autograd.grad(found, leaves, do.double())
    return _rounded((dq, dk, dv), inputs)


def _rounded(
    grads: tuple[Tensor, Tensor, Tensor], inputs: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, each in the dtype of its input."""
    dq, dk, dv = (grad.to(x.dtype) for grad, x in zip(grads, inputs, strict=True))
    return dq, dk, dv


def _scale(q: Tensor, sm_scale: float | None) -> float:
    """The factor of the scores; heads of size 0 have any."""
    return float(max(q.shape[-1], 1) ** -0.5 if sm_scale is None else sm_scale)


def _per_head(scale: Tensor, heads: int) -> Tensor:
    """The factor of each head, those of a group alike."""
    return scale.double().repeat_interleave(heads // len(scale))[:, None]


def _seen(c: Tensor, j: Tensor, left: int, right: int) -> Tensor:
    """Whether the query at position `c` sees key `j`; a negative side is open."""
    seen = torch.ones(len(c), len(j), dtype=torch.bool, device=c.device)
    if left >= 0:
        seen &= j >= c[:, None] - left
    if right >= 0:
        seen &= j <= c[:, None] + right
    return seen


def _attend(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float, softcap: float | None
) -> Tensor:
    """Attention of one request, a head at a time."""
    out = torch.zeros(*q.shape[:2], v.shape[2], dtype=torch.float64, device=q.device)
    for head in range(q.shape[1]):
        kv_head = head // (q.shape[1] // k.shape[1])
        scores = q[:, head] @ k[:, kv_head].T * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        out[:, head] = _softmax(scores, seen) @ v[:, kv_head]
    return out


def _softmax(scores: Tensor, seen: Tensor) -> Tensor:
    """Weights of the seen scores; all zero in a row that sees none."""
    if scores.numel() == 0:
        return scores
    scores = scores.masked_fill(~seen, -torch.inf)
    largest = scores.amax(1, keepdim=True).nan_to_num(neginf=0.0)
    power = torch.where(seen, torch.exp(scores - largest), 0.0)
    total = power.sum(1, keepdim=True)
    return power / torch.where(total == 0, 1.0, total)


def _rotate(x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate the channel pairs of `[S, H, C]` that the tables cover by the position of each row.

    A position outside the tables reads their nearest row; no row, no rotation.
    """
    rows, half = cos.shape
    if rows == 0:
        return x
    position = position.clamp(0, rows - 1)
    c, s = cos[position][:, None], sin[position][:, None]
    result = x.clone()
    first, second = slice(0, half), slice(half, 2 * half)
    if layout == "interleaved":
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    result[..., first] = x[..., first] * c - x[..., second] * s
    result[..., second] = x[..., second] * c + x[..., first] * s
    return result
