"""Attention over a latent cache whose entries are keys and values at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.attention.kernels.softmax import SoftmaxAttention
from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class LatentDecodeCall(CallSpec):
    """One query of each request over a latent cache.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: heads of the cache.
        latent_dim: channels of the latent part.
        rope_dim: channels of the rotated part.
        dtype: element type.
    """

    heads: int
    kv_heads: int
    latent_dim: int
    rope_dim: int
    dtype: torch.dtype


class LatentDecodeFwdInterface(KernelInterface):
    """Absorbed latent attention of one query."""

    request = LatentDecodeCall

    @abstractmethod
    def forward(self, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        """Attend: scores `(q · k + q_pe · k_pe) / sqrt(latent_dim + rope_dim)`, values `k`.

        All tensors are in `call.dtype`, on `call.device`, of any strides, and only read.

        Args:
            q: `[B, heads, latent_dim]`.
            q_pe: `[B, heads, rope_dim]`.
            k: `[B, N, kv_heads, latent_dim]`.
            k_pe: `[B, N, kv_heads, rope_dim]`.

        Returns:
            A new contiguous `[B, heads, latent_dim]` in `call.dtype`; zeros when `N` is 0. Scores,
            softmax and sums are float32. `B` and `N` vary between calls.
        """


class LatentDecodePortableKernel(PortableKernel[LatentDecodeCall], LatentDecodeFwdInterface):
    """Attention by torch over both parts side by side, as keys and, cut short, as values."""

    @classmethod
    def entry_for(
        cls, call: LatentDecodeCall
    ) -> tuple[Hashable, Callable[[], LatentDecodePortableKernel]]:
        """One build for each pair of widths."""
        return (call.latent_dim, call.rope_dim), lambda: cls(call)

    def forward(self, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        """Attend."""
        if k.shape[1] == 0:
            return torch.zeros_like(q, memory_format=torch.contiguous_format)
        width = self.call.latent_dim + self.call.rope_dim
        query, cache = torch.cat((q, q_pe), -1)[:, None], torch.cat((k, k_pe), -1)
        # Values as wide as the keys suit every backend of torch; the tail is thrown away.
        out = SoftmaxAttention(width**-0.5).attend(query, cache, cache)
        return out[:, 0, :, : self.call.latent_dim].contiguous()
