"""A run of tokens through a matrix state, a chunk at a time, in float32, or float64 if tokens are.

Token by token the state `S` `[K, V]` of a head decays, `S ← exp(g) S`, then takes up
`S ← S + k uᵀ`, where `u` is `v`, or with the delta rule `beta (v - kᵀ S)`, and is read as
`o = qᵀ S`. Within a chunk the `u` of all tokens solve one triangular system, so that a chunk costs
a few products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64
"""Tokens of a chunk where all channels of a key decay alike."""

CHANNEL_CHUNK = 16
"""Tokens of a chunk where each channel has its own decay, which is formed for all pairs."""


class Tokens(NamedTuple):
    """Tokens of some heads, all of one dtype.

    Attributes:
        q: `[…, S, K]`, scaled.
        k: `[…, S, K]`.
        v: `[…, S, V]`.
        g: log decay `[…, S, 1]`, or `[…, S, K]` for each channel of the key.
        beta: strength of the delta rule `[…, S, 1]`; None without the rule.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor | None

    @property
    def chunk(self) -> int:
        """Tokens of a chunk."""
        return CHUNK if self.g.shape[-1] == 1 else CHANNEL_CHUNK

    def rows(self, part: slice) -> Tokens:
        """Some of the tokens."""
        return self.mapped(lambda field: field[..., part, :])

    def block(self, number: int) -> Tokens:
        """One entry of the leading axis, which stays."""
        return self.mapped(lambda field: field[number : number + 1])

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Tokens:
        """The same change of every field."""
        beta = None if self.beta is None else change(self.beta)
        return Tokens(change(self.q), change(self.k), change(self.v), change(self.g), beta)


def run(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """All tokens in order.

    Args:
        tokens: of `[…, S, ·]`.
        state: before the first, `[…, K, V]`.

    Returns:
        What is read at each token `[…, S, V]`, and the state after the last.
    """
    read = []
    for start in range(0, tokens.q.shape[-2], tokens.chunk):
        out, state = step(tokens.rows(slice(start, start + tokens.chunk)), state)
        read.append(out)
    return (torch.cat(read, -2) if read else tokens.v), state


def step(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One chunk; see `run`."""
    q, k, v, g, beta = tokens
    # Sums of many logs cancel where two are subtracted.
    total = g.double().cumsum(-2)
    decay = total.exp().to(q.dtype)
    pairs = decay_of_pairs(total).to(q.dtype)
    u = v
    if beta is not None:
        below = torch.tril(products(k, k, pairs), -1) * beta
        u = torch.linalg.solve_triangular(
            below, beta * (v - (k * decay) @ state), upper=False, unitriangular=True
        )
    out = (q * decay) @ state + torch.tril(products(q, k, pairs)) @ u
    to_end = (total[..., -1:, :] - total).exp().to(q.dtype)
    last = decay[..., -1, :, None]
    return out, last * state + (k * to_end).mT @ u


def decay_of_pairs(total: Tensor) -> Tensor:
    """What is left at token i of what token j took up, `[…, C, C, 1 or K]`; 0 for later j."""
    left = total[..., :, None, :] - total[..., None, :, :]
    later = torch.ones(left.shape[-3:-1], dtype=torch.bool, device=left.device).triu(1)
    return left.masked_fill(later[..., None], -torch.inf).exp()


def products(a: Tensor, b: Tensor, pairs: Tensor) -> Tensor:
    """`a_i · b_j` of all pairs, decayed."""
    if pairs.shape[-1] == 1:
        return a @ b.mT * pairs[..., 0]
    return torch.einsum("...ik,...jk,...ijk->...ij", a, b, pairs)


def unit(x: Tensor) -> Tensor:
    """`x` divided by its length along the last axis."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def log_decay(raw: Tensor, a_log: Tensor, dt_bias: Tensor | None, lower: float | None) -> Tensor:
    """The log decay that a raw gate stands for.

    Args:
        raw: the gate.
        a_log: logarithm of its rate, broadcast.
        dt_bias: what is added to it, broadcast.
        lower: the smallest log decay, of a gate that a sigmoid bounds; None for a softplus.
    """
    moved = raw if dt_bias is None else raw + dt_bias
    if lower is not None:
        return lower * torch.sigmoid(a_log.exp() * moved)
    return -a_log.exp() * F.softplus(moved)
