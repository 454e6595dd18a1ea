"""The delta rule chunk by chunk, with what its gradients reuse, and these gradients.

A chunk of `C` tokens with keys `k`, values `v` and strengths `beta` adds `kᵀ (u - w S)` to the
state `S`, where `w = A (beta k)`, `u = A (beta v)` and `A = (1 + tril(beta k kᵀ, -1))⁻¹`: the WY
representation, which needs no state. So all chunks are inverted at once, and only a few products of
each follow one another. The serving kernels solve for `u - w S` instead and keep nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class DeltaChunksCall(CallSpec):
    """The delta rule in chunks, or its gradients.

    Args:
        key_dim: channels of q and k.
        value_dim: channels of v.
        chunk: tokens of a chunk.
        dtype: element type of all but the states.
    """

    key_dim: int
    value_dim: int
    chunk: int
    dtype: torch.dtype


class DeltaChunksFwdInterface(KernelInterface):
    """The delta rule in chunks, with what its gradients reuse."""

    request = DeltaChunksCall

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        """Run each head from a state of zeros, in float32.

        For each token in order: `u = beta (v - kᵀ S)`; `S ← S + k uᵀ`; `o = qᵀ S`. All tensors are
        of any strides, in `call.dtype`, on `call.device`; read.

        Args:
            q: `[B, H, L, key_dim]`.
            k: `[B, H, L, key_dim]`.
            v: `[B, H, L, value_dim]`.
            beta: `[B, H, L]`.

        Returns:
            New contiguous tensors `o, S, Aw, Au, w, u`: `o` `[B, H, L, value_dim]`; the states at
            the bounds of chunks, zeros first, `[B, H, L / chunk + 1, key_dim, value_dim]` float32;
            twice the inverse of each chunk, row by row, `[B, H, L, chunk]`; its products with the
            keys `[B, H, L, key_dim]` and the values `[B, H, L, value_dim]` times `beta`. All but
            the states are in `call.dtype`. `B`, `H` and `L`, a multiple of `chunk`, are positive
            and vary between calls.
        """


class DeltaChunksPortableKernel(PortableKernel[DeltaChunksCall], DeltaChunksFwdInterface):
    """The WY representation by torch."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        """Run each head."""
        queries, keys, values, strength = _in_chunks(self.call, q, k, v, beta[..., None])
        inverse = _inverse(keys, strength)
        w, u = inverse @ (strength * keys), inverse @ (strength * values)
        weights = torch.tril(queries @ keys.mT)
        state = keys.new_zeros(*k.shape[:2], self.call.key_dim, self.call.value_dim)
        states, read = [state], []
        for n in range(keys.shape[2]):
            taken = u[:, :, n] - w[:, :, n] @ state
            read.append(queries[:, :, n] @ state + weights[:, :, n] @ taken)
            state = state + keys[:, :, n].mT @ taken
            states.append(state)
        kept = (_in_rows(self.call, part) for part in (inverse, inverse.clone(), w, u))
        return torch.cat(read, 2).to(q.dtype), torch.stack(states, 2), *kept


class DeltaChunksBwdInterface(KernelInterface):
    """Gradients of the delta rule in chunks, from what the forward pass kept."""

    request = DeltaChunksCall

    @abstractmethod
    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        S: Tensor,  # noqa: N803
        Aw: Tensor,  # noqa: N803
        Au: Tensor,  # noqa: N803
        w: Tensor,
        u: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients, in float32.

        All tensors are of any strides, on `call.device`; read.

        Args:
            do: `[B, H, L, value_dim]` in `call.dtype`, the gradient of `o`.
            q: as in the forward interface. So are the next three.
            k: likewise.
            v: likewise.
            beta: likewise.
            S: the states that the forward interface returns. So is all that follows. Each chunk
                takes the state before it as it is given; the last is not read.
            Aw: likewise; below the diagonal only, above which zeros and on which ones count.
            Au: likewise.
            w: likewise.
            u: likewise.

        Returns:
            The gradients of `q, k, v, beta`, new and contiguous, in `call.dtype`.
        """


class DeltaChunksBwdPortableKernel(PortableKernel[DeltaChunksCall], DeltaChunksBwdInterface):
    """The derivative of each step by torch, the last chunk first."""

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        S: Tensor,  # noqa: N803
        Aw: Tensor,  # noqa: N803
        Au: Tensor,  # noqa: N803
        w: Tensor,
        u: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        chunks = _in_chunks(self.call, do, q, k, v, beta[..., None], w, u)
        do, q, k, v, strength, w, u = chunks
        to_w, to_u = (_below_and_ones(part) for part in _in_chunks(self.call, Aw, Au))
        before = S[:, :, :-1].to(do.dtype)
        du = torch.tril(q @ k.mT).mT @ do
        after = _gradients_of_states(do, q, k, w, du)
        du = du + k @ after
        taken = u - w @ before
        of_weights = torch.tril(do @ taken.mT)
        dq = do @ before.mT + of_weights @ k
        dk = of_weights.mT @ q + taken @ after.mT
        # Through the inverse: of its products first, then of what was inverted.
        of_keys, of_values = to_w.mT @ -(du @ before.mT), to_u.mT @ du
        of_system = -torch.tril(of_keys @ w.mT + of_values @ u.mT, -1)
        dbeta = (of_system * (k @ k.mT)).sum(-1) + (of_keys * k).sum(-1) + (of_values * v).sum(-1)
        of_products = strength * of_system
        dk = dk + (of_products + of_products.mT) @ k + strength * of_keys
        found = (dq, dk, strength * of_values, dbeta)
        dq, dk, dv, dbeta = (_in_rows(self.call, part) for part in found)
        return dq, dk, dv, dbeta


def _gradients_of_states(do: Tensor, q: Tensor, k: Tensor, w: Tensor, du: Tensor) -> Tensor:
    """The gradient of the state after each chunk; `du` is that of `u` but for what it comes to."""
    later = torch.zeros_like(q[:, :, 0].mT @ do[:, :, 0])
    found = [later]
    for n in range(q.shape[2] - 1, 0, -1):
        through = du[:, :, n] + k[:, :, n] @ later
        later = later + q[:, :, n].mT @ do[:, :, n] - w[:, :, n].mT @ through
        found.append(later)
    return torch.stack(found[::-1], 2)


def _inverse(k: Tensor, beta: Tensor) -> Tensor:
    """`(1 + tril(beta k kᵀ, -1))⁻¹` of each chunk."""
    system = torch.tril(beta * (k @ k.mT), -1)
    one = torch.eye(k.shape[-2], dtype=k.dtype, device=k.device).expand_as(system)
    inverse: Tensor = torch.linalg.solve_triangular(system, one, upper=False, unitriangular=True)
    return inverse


def _below_and_ones(inverse: Tensor) -> Tensor:
    """What lies below the diagonal, and ones on it."""
    one = torch.eye(inverse.shape[-1], dtype=inverse.dtype, device=inverse.device)
    return torch.tril(inverse, -1) + one


def _in_chunks(call: DeltaChunksCall, *tensors: Tensor) -> list[Tensor]:
    """Tensors `[B, H, L, ·]` as `[B, H, chunks, chunk, ·]` in the dtype of the arithmetic."""
    wide = torch.promote_types(call.dtype, torch.float32)
    return [part.to(wide).unflatten(2, (-1, call.chunk)) for part in tensors]


def _in_rows(call: DeltaChunksCall, chunks: Tensor) -> Tensor:
    """A tensor `[B, H, chunks, chunk, …]` as `[B, H, L, …]` in the call's dtype."""
    return chunks.flatten(2, 3).to(call.dtype).contiguous()
