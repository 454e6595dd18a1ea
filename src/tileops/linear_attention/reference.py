"""References of the linear_attention family: float64, token by token, rounded once.

Drawn data is tamed where a recurrence would blow up on it: keys of length 1, strengths below 1,
log decays below 0, as models have them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def gated_delta_net(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    use_gate_in_kernel: bool = False,
) -> tuple[Tensor, Tensor]:
    """A state of each value head decays, then takes up what it does not hold of a token."""
    decay = g.double()[..., None]
    if A_log is not None and dt_bias is not None:
        decay = -A_log.double().exp()[:, None] * F.softplus(decay + dt_bias.double()[:, None])
    strength = beta.double()
    if use_beta_sigmoid_in_kernel:
        strength = torch.sigmoid(strength) * (2 if allow_neg_eigval else 1)
    return _recurrence(
        *_queries_and_keys(q, k, scale, use_qk_l2norm_in_kernel),
        v,
        decay,
        strength,
        initial_state,
        cu_seqlens,
        v_first=state_v_first,
    )


def kimi_delta_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    use_gate_in_kernel: bool = False,
    lower_bound: float | None = None,
) -> tuple[Tensor, Tensor]:
    """As `gated_delta_net`, each channel of the key with a decay of its own."""
    decay = g.double()
    if A_log is not None:
        rate = A_log.double().exp()[:, None]
        if dt_bias is not None:
            decay = decay + dt_bias.double().view(g.shape[2:])
        if lower_bound is None:
            decay = -rate * F.softplus(decay)
        else:
            decay = lower_bound * torch.sigmoid(rate * decay)
    strength = beta.double()
    if use_beta_sigmoid_in_kernel:
        strength = torch.sigmoid(strength) * (2 if allow_neg_eigval else 1)
    return _recurrence(
        *_queries_and_keys(q, k, scale, use_qk_l2norm_in_kernel),
        v,
        decay,
        strength,
        initial_state,
        cu_seqlens,
        v_first=state_v_first,
    )


def delta_net_inference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
) -> tuple[Tensor, Tensor]:
    """A state takes up what it does not hold of a token, and never decays."""
    decay = torch.zeros(*v.shape[:3], 1, dtype=torch.float64)
    queries_and_keys = _queries_and_keys(q, k, scale, use_qk_l2norm_in_kernel)
    return _recurrence(*queries_and_keys, v, decay, beta.double(), initial_state, cu_seqlens)


def gla_inference(
    q: Tensor,
    k: Tensor,
    g: Tensor,
    v: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Each channel of the key decays, then the state takes up a token as it is."""
    queries_and_keys = _queries_and_keys(q, k, scale, False)
    return _recurrence(*queries_and_keys, v, g.double(), None, initial_state, cu_seqlens)


def delta_net(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *, chunk_size: int = 64
) -> tuple[Tensor, ...]:
    """The delta rule token by token, and the inverse of each chunk of it."""
    tokens = [x.double().transpose(1, 2) for x in (q, k, v, torch.zeros_like(k), beta)]
    first = torch.zeros(*k.shape[:2], k.shape[3], v.shape[3], dtype=torch.float64)
    out, states = _by_chunk(tokens, first, chunk_size)
    keys, values, strength = (
        x.double().unflatten(2, (-1, chunk_size)) for x in (k, v, beta[..., None])
    )
    system = torch.tril(strength * (keys @ keys.mT), -1)
    inverse = torch.linalg.inv(torch.eye(chunk_size, dtype=torch.float64) + system)
    kept = inverse, inverse.clone(), inverse @ (strength * keys), inverse @ (strength * values)
    rounded = (x.flatten(2, 3).to(q.dtype) for x in kept)
    return out.transpose(1, 2).to(q.dtype), states.transpose(1, 2).float(), *rounded


def delta_net_autograd(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *, chunk_size: int = 64
) -> Tensor:
    """What the delta rule reads."""
    return delta_net(q, k, v, beta, chunk_size=chunk_size)[0]


def delta_net_bwd(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    S: Tensor,
    Aw: Tensor,
    Au: Tensor,
    w: Tensor,
    u: Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[Tensor, ...]:
    """Each chunk from the state before it, differentiated by torch; then the inverse likewise."""
    arriving, *rest = (x.double().unflatten(2, (-1, chunk_size)) for x in (do, q, k, v, w, u))
    q_, k_, v_, w_, u_ = (x.requires_grad_() for x in rest)
    b_ = beta.double().unflatten(2, (-1, chunk_size))[..., None].requires_grad_()
    to_w, to_u = (
        torch.tril(x.double().unflatten(2, (-1, chunk_size)), -1)
        + torch.eye(chunk_size, dtype=torch.float64)
        for x in (Aw, Au)
    )
    later, found = torch.zeros_like(S[:, :, 0].double()), []
    with torch.enable_grad():
        for n in range(k_.shape[2] - 1, -1, -1):
            state = S[:, :, n].double().requires_grad_()
            query, key, skip, take = (x[:, :, n] for x in (q_, k_, w_, u_))
            taken = take - skip @ state
            read = query @ state + torch.tril(query @ key.mT) @ taken
            results = read, state + key.mT @ taken
            wanted = query, key, skip, take, state
            *parts, later = torch.autograd.grad(results, wanted, (arriving[:, :, n], later))
            found.append(parts)
        dq, dk, dw, du = (torch.stack(parts[::-1], 2) for parts in zip(*found, strict=True))
        products = (dw * (to_w @ (b_ * k_))).sum() + (du * (to_u @ (b_ * v_))).sum()
        of_system = to_w.mT @ dw @ w_.detach().mT + to_u.mT @ du @ u_.detach().mT
        inverse = (of_system * torch.tril(b_ * (k_ @ k_.mT), -1)).sum()
        more, dv, dbeta = torch.autograd.grad(products - inverse, (k_, v_, b_))
    gradients = dq, dk + more, dv, dbeta[..., 0]
    return tuple(x.flatten(2, 3).to(q.dtype) for x in gradients)


def gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None = None,
    *,
    chunk_size: int = 64,
    scale: float = -1.0,
) -> tuple[Tensor, Tensor]:
    """As `gla_inference`, of whole batches."""
    return gla_inference(q, k, g, v, initial_state, scale=scale if scale > 0 else None)


def gla_bwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    h: Tensor,
    do: Tensor,
    dht: Tensor,
    *,
    chunk_size: int = 64,
    scale: float = -1.0,
    has_initial_state: bool = False,
) -> tuple[Tensor, ...]:
    """Each chunk token by token from the state before it, differentiated by torch."""
    factor = scale if scale > 0 else q.shape[3] ** -0.5
    later, found = dht.double(), []
    for n in range(h.shape[1] - 2, -1, -1):
        rows = slice(n * chunk_size, (n + 1) * chunk_size)
        query, key, value, decay = (x[:, rows].double().requires_grad_() for x in (q, k, v, g))
        state = (h[:, n].double() * (1 if n or has_initial_state else 0)).requires_grad_()
        with torch.enable_grad():
            results = _by_token(query * factor, key, value, decay, None, state)
        wanted = query, key, value, decay, state
        arriving = do[:, rows].double(), later
        *parts, later = torch.autograd.grad(results, wanted, arriving)
        found.append(parts)
    dq, dk, dv, dg = (torch.cat(parts[::-1], 1).float() for parts in zip(*found, strict=True))
    return dq, dk, dg, dv


def delta_net_decode(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """A sequence of one token."""
    query, key, value, strength = (x.double()[:, None] for x in (q, k, v, beta))
    out, last = _by_token(query, key, value, torch.zeros_like(key), strength, state)
    return out[:, 0].to(v.dtype), last.to(state.dtype)


def gla_decode(
    q: Tensor, k: Tensor, gk: Tensor, v: Tensor, state: Tensor, *, scale: float = -1.0
) -> tuple[Tensor, Tensor]:
    """A sequence of one token."""
    factor = scale if scale > 0 else q.shape[2] ** -0.5
    query, key, value, decay = (x.double()[:, None] for x in (q, k, v, gk))
    out, last = _by_token(query * factor, key, value, decay, None, state)
    return out[:, 0].to(v.dtype), last.to(state.dtype)


def gated_delta_net_bwd(do: Tensor, dfinal_state: Tensor, *tensors: Any, **params: Any) -> Any:
    """The recurrence, differentiated by torch."""
    dq, dk, dv, dg, dbeta, dstate, _, _, rate, bias = _differentiated(
        gated_delta_net, (do, dfinal_state), tensors, params
    )
    return dq, dk, dv, dg, dbeta, dstate, rate, bias


def kimi_delta_attention_bwd(do: Tensor, dfinal_state: Tensor, *tensors: Any, **params: Any) -> Any:
    """The recurrence, differentiated by torch."""
    dq, dk, dv, dg, dbeta, dstate, _, _, rate, bias = _differentiated(
        kimi_delta_attention, (do, dfinal_state), tensors, params
    )
    return dq, dk, dv, dg, dbeta, dstate, rate, bias


def delta_net_inference_bwd(do: Tensor, dfinal_state: Tensor, *tensors: Any, **params: Any) -> Any:
    """The recurrence, differentiated by torch."""
    return _differentiated(delta_net_inference, (do, dfinal_state), tensors, params)[:5]


def gla_inference_bwd(do: Tensor, dfinal_state: Tensor, *tensors: Any, **params: Any) -> Any:
    """The recurrence, differentiated by torch."""
    return _differentiated(gla_inference, (do, dfinal_state), tensors, params)[:5]


def _differentiated(
    recurrence: Callable[..., tuple[Tensor, Tensor]],
    arriving: tuple[Tensor, Tensor],
    tensors: tuple[Any, ...],
    params: dict[str, Any],
) -> tuple[Any, ...]:
    """The gradients of the tensors in float64, rounded once; None of offsets and what is absent."""
    leaves = [
        x.double().requires_grad_() if x is not None and x.is_floating_point() else x
        for x in tensors
    ]
    chosen = [x for x in leaves if x is not None and x.requires_grad]
    with torch.enable_grad():
        found = recurrence(*leaves, **params)
    pairs = [(x, g.to(x.dtype)) for x, g in zip(found, arriving, strict=True) if x.requires_grad]
    if pairs:
        results, weights = zip(*pairs, strict=True)
        gradients = iter(torch.autograd.grad(results, chosen, weights, materialize_grads=True))
    else:
        gradients = map(torch.zeros_like, chosen)
    return tuple(
        next(gradients).to(own.dtype) if x is not None and x.requires_grad else None
        for x, own in zip(leaves, tensors, strict=True)
    )


def _queries_and_keys(
    q: Tensor, k: Tensor, scale: float | None, normalise: bool
) -> tuple[Tensor, Tensor]:
    """Scaled queries, and keys, both of length 1 where that is asked."""
    queries, keys = q.double(), k.double()
    if normalise:
        queries, keys = (
            x / (x.square().sum(3, keepdim=True) + 1e-6).sqrt() for x in (queries, keys)
        )
    return queries * (q.shape[3] ** -0.5 if scale is None else scale), keys


def _recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    beta: Tensor | None,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
    *,
    v_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Every sequence and head, token by token; results are rounded."""
    first = initial_state.mT if v_first and initial_state is not None else initial_state
    out, last = _by_token(q, k, v, decay, beta, first, cu_seqlens)
    return out.to(v.dtype), (last.mT if v_first else last).float().contiguous()


def _by_token(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    beta: Tensor | None,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Every sequence and head, token by token, in float64."""
    batch, length, heads, width = v.shape
    group = heads // max(q.shape[2], 1)
    starts = None if cu_seqlens is None else cu_seqlens.tolist()
    count = batch if starts is None else len(starts) - 1
    first = torch.zeros(count, heads, k.shape[3], width, dtype=torch.float64)
    if initial_state is not None:
        first = first + initial_state
    states = [list(one) for one in first]
    out = torch.zeros(v.shape, dtype=torch.float64)
    spans = [(0, length)] * batch if starts is None else list(pairwise(starts))
    for sequence, (start, stop) in enumerate(spans):
        entry = sequence if starts is None else 0
        for t in range(start, stop):
            for head in range(heads):
                key, query = k[entry, t, head // group], q[entry, t, head // group]
                held = decay[entry, t, head].exp()[:, None] * states[sequence][head]
                taken = v[entry, t, head].double()
                if beta is not None:
                    taken = beta[entry, t, head] * (taken - key @ held)
                states[sequence][head] = held + key[:, None] * taken
                out[entry, t, head] = query @ states[sequence][head]
    last = torch.stack([torch.stack(one) for one in states]) if first.numel() else first
    return out, last


def _by_chunk(tokens: list[Tensor], first: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """What is read at each token, and the states at the bounds of chunks `[B, NC + 1, H, K, V]`.

    Args:
        tokens: q, k, v, log decays and, with the delta rule, strengths.
        first: the state before the first.
        size: tokens of a chunk.
    """
    read, states = [], [first]
    for start in range(0, tokens[0].shape[1], size):
        q, k, v, decay, *beta = (part[:, start : start + size] for part in tokens)
        out, last = _by_token(q, k, v, decay, beta[0] if beta else None, states[-1])
        read.append(out)
        states.append(last)
    return torch.cat(read, 1), torch.stack(states, 1)


def gated_delta_net_tamed(inputs: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
    """Data as models have it."""
    return _tamed(inputs)


def kimi_delta_attention_tamed(
    inputs: dict[str, Tensor], *, lower_bound: float | None = None, **_: Any
) -> dict[str, Tensor]:
    """Data as models have it; a bound above 0, which none has, is out of the gate's reach."""
    tamed = _tamed(inputs)
    if lower_bound is not None and lower_bound > 0:
        tamed["A_log"] = torch.full_like(inputs["A_log"], 3.0)
        tamed["g"] = -5 - inputs["g"].abs()
    return tamed


def delta_net_inference_tamed(inputs: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
    """Data as models have it."""
    return _tamed(inputs)


def gla_inference_tamed(inputs: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
    """Data as models have it."""
    return _tamed(inputs)


def delta_net_tamed(inputs: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
    """Data as models have it."""
    return _tamed(inputs)


def delta_net_bwd_tamed(inputs: dict[str, Tensor], *, chunk_size: int = 64) -> dict[str, Tensor]:
    """Data as models have it, and what the forward pass keeps of it."""
    tamed = _tamed(inputs)
    q, k, v, beta = (tamed[name] for name in ("q", "k", "v", "beta"))
    _, *kept = delta_net(q, k, v, beta, chunk_size=chunk_size)
    return {**tamed, **dict(zip(("S", "Aw", "Au", "w", "u"), kept, strict=True))}


def gla_bwd_tamed(
    inputs: dict[str, Tensor], *, chunk_size: int = 64, has_initial_state: bool = False, **_: Any
) -> dict[str, Tensor]:
    """Data as models have it, and the states that a forward pass keeps of it."""
    tamed = _tamed(inputs)
    first = tamed["h"][:, 0].double() * has_initial_state
    tokens = [tamed[name].double() for name in ("q", "k", "v", "g")]
    return {**tamed, "h": _by_chunk(tokens, first, chunk_size)[1].float()}


delta_net_autograd_tamed = delta_net_tamed
delta_net_decode_tamed = delta_net_tamed
gla_tamed = gla_inference_tamed
gla_decode_tamed = gla_inference_tamed
gated_delta_net_bwd_tamed = gated_delta_net_tamed
kimi_delta_attention_bwd_tamed = kimi_delta_attention_tamed
delta_net_inference_bwd_tamed = delta_net_inference_tamed
gla_inference_bwd_tamed = gla_inference_tamed


def _tamed(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Keys of length 1, strengths between 0 and 1, log decays below 0."""
    tamed = dict(inputs)
    tamed["k"] = F.normalize(inputs["k"].float(), dim=-1).to(inputs["k"].dtype)
    if "beta" in inputs:
        tamed["beta"] = inputs["beta"].sigmoid()
    for name in {"g", "gk"} & inputs.keys() if "A_log" not in inputs else ():
        tamed[name] = -F.softplus(inputs[name].float()).to(inputs[name].dtype)
    return tamed
