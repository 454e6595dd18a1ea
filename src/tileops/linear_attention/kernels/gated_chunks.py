"""Gradients of gated linear attention in chunks, from the states at their bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.linear_attention.kernels.recurrence import Tokens, decay_of_pairs, products, step


@dataclass(frozen=True)
class GatedChunksCall(CallSpec):
    """Gated linear attention in chunks.

    Args:
        key_dim: channels of q, k and g.
        value_dim: channels of v.
        scale: factor of q.
        chunk: tokens of a chunk.
        has_initial_state: whether the first state counts; zeros in its place if not.
        dtype: element type of q, k, v, g and the gradient of the result.
    """

    key_dim: int
    value_dim: int
    scale: float
    chunk: int
    has_initial_state: bool
    dtype: torch.dtype


class GatedChunksBwdInterface(KernelInterface):
    """Gradients of gated linear attention, from the states at the bounds of chunks."""

    request = GatedChunksCall

    @abstractmethod
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, h: Tensor, do: Tensor, dht: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients, in float32.

        For each token in order: `S ← diag(exp(g)) S + k vᵀ`; `o = scale * (qᵀ S)`. All tensors are
        of any strides, on `call.device`; read.

        Args:
            q: `[B, S, H, key_dim]` in `call.dtype`.
            k: `[B, S, H, key_dim]` in `call.dtype`.
            v: `[B, S, H, value_dim]` in `call.dtype`.
            g: log decay `[B, S, H, key_dim]` in `call.dtype`.
            h: states at the bounds of chunks `[B, S / chunk + 1, H, key_dim, value_dim]` float32.
                Each chunk takes the state before it as it is given; the last is not read.
            do: `[B, S, H, value_dim]` in `call.dtype`, the gradient of `o`.
            dht: `[B, H, key_dim, value_dim]` float32, the gradient of the final state.

        Returns:
            The gradients of `q, k, g, v`, float32, new and contiguous. `B`, `H` and `S`, a multiple
            of `chunk`, are positive and vary between calls.
        """


class GatedChunksBwdPortableKernel(PortableKernel[GatedChunksCall], GatedChunksBwdInterface):
    """The derivative of a few tokens at a time by torch, the last first."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, h: Tensor, do: Tensor, dht: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        wide, size = torch.promote_types(self.call.dtype, torch.float32), self.call.chunk
        q, k, v, g, do = (part.to(wide).transpose(1, 2) for part in (q, k, v, g, do))
        tokens, later = Tokens(q * self.call.scale, k, v, g, None), dht
        found = []
        for n in range(h.shape[1] - 2, -1, -1):
            first = h[:, n] if n or self.call.has_initial_state else torch.zeros_like(dht)
            bounds = slice(n * size, (n + 1) * size)
            for part, before in reversed(_parts(tokens, bounds, first)):
                gradients, later = _gradients(tokens.rows(part), before, do[..., part, :], later)
                found.append(gradients)
        dq, dk, dv, dg = (torch.cat(parts[::-1], 2) for parts in zip(*found, strict=True))
        dq, dk, dg, dv = (
            part.transpose(1, 2).to(wide).contiguous()
            for part in (dq * self.call.scale, dk, dg, dv)
        )
        return dq, dk, dg, dv


def _parts(tokens: Tokens, bounds: slice, state: Tensor) -> list[tuple[slice, Tensor]]:
    """Parts of a chunk for which decays of all pairs are small, each with the state before it."""
    starts = range(bounds.start, bounds.stop, tokens.chunk)
    slices = [slice(start, min(start + tokens.chunk, bounds.stop)) for start in starts]
    before = [state]
    for part in slices[:-1]:
        _, state = step(tokens.rows(part), state)
        before.append(state)
    return list(zip(slices, before, strict=True))


def _gradients(
    tokens: Tokens, before: Tensor, do: Tensor, later: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The gradients of q, k, v and g of some tokens, and of the state before them.

    Args:
        tokens: which decay by channel, without the delta rule.
        before: the state before the first.
        do: the gradient of what is read.
        later: the gradient of the state after the last.
    """
    q, k, v, g, _ = tokens
    total = g.double().cumsum(-2)
    decay, to_end = total.exp().to(q.dtype), (total[..., -1:, :] - total).exp().to(q.dtype)
    pairs = decay_of_pairs(total).to(q.dtype)
    last, kept = decay[..., -1, :, None], k * to_end
    of_weights = torch.tril(do @ v.mT)
    dq = decay * (do @ before.mT) + torch.einsum("...ij,...jk,...ijk->...ik", of_weights, k, pairs)
    dk = to_end * (v @ later.mT) + torch.einsum("...ij,...ik,...ijk->...jk", of_weights, q, pairs)
    dv = torch.tril(products(q, k, pairs)).mT @ do + kept @ later
    # A query grows with the sum of logs up to its token, a key shrinks, and the last state grows.
    of_total = q * dq - k * dk
    of_total[..., -1, :] += ((last * before + kept.mT @ v) * later).sum(-1)
    dg = of_total.flip(-2).cumsum(-2).flip(-2)
    return (dq, dk, dv, dg), last * later + (q * decay).mT @ do
