"""Attention over a latent cache whose entries are keys and values at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops.attention.kernels.decode import SplitPrograms, merge_of
from tileops.attention.kernels.device import HALVES, part_count
from tileops.attention.kernels.softmax import SoftmaxAttention
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

_WIDEST = 512  # channels of which a warpgroup keeps half
_ROWS = 64  # heads of a warpgroup
_COLUMNS = 128  # entries that a block of the widest takes at once
_TILES: Mapping[int, tuple[int, int]] = {128: (128, 3), 256: (64, 3)}
"""Entries of a tile, and buffers of the ring, by channels of narrower latents."""


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


class LatentDecodePipelinedKernel(Kernel, LatentDecodeFwdInterface):
    """Attention on Hopper's tensor cores, each entry read once as key and value; 16-bit operands.

    Args:
        heads: query heads.
        latent_dim: channels of the latent part.
        dtype: element type.
        blocks: blocks that run at once, one on each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    SIZES = (128, 256, 512)
    """Channels of the latent part."""
    ROPE = 64
    """Channels of the rotated part."""

    def __init__(self, heads: int, latent_dim: int, dtype: torch.dtype, blocks: int) -> None:
        super().__init__()
        self.heads, self.latent_dim = heads, latent_dim
        self.dtype, self.blocks = dtype, blocks

    @classmethod
    def refusal(cls, call: LatentDecodeCall) -> str | None:
        """Refuses several cache heads, and other elements and widths."""
        if call.dtype not in HALVES:
            return f"attends in float16 and bfloat16, not {dtype_name(call.dtype)}"
        if call.kv_heads != 1:
            return f"reads a cache of one head, not of {call.kv_heads}"
        if call.latent_dim not in cls.SIZES or call.rope_dim != cls.ROPE:
            return (
                f"attends with {list(cls.SIZES)} latent and {cls.ROPE} rotated channels, not "
                f"{call.latent_dim} and {call.rope_dim}"
            )
        return super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: LatentDecodeCall
    ) -> tuple[Hashable, Callable[[], LatentDecodePipelinedKernel]]:
        """One build for each number of heads, width and element type."""
        constants = (call.heads, call.latent_dim, call.dtype, call.sm_count)
        return constants, lambda: cls(*constants)

    @property
    def _warpgroups(self) -> int:
        """Warpgroups of a block that have heads of their own."""
        return 1 if self.latent_dim == _WIDEST or self.heads <= _ROWS else 2

    def make_program(self, config: Mapping[str, Any]) -> SplitPrograms:
        """Compile both programs."""
        from tileops.attention.programs.latent import Latent, build_latent_decode
        from tileops.attention.programs.latent_rows import Rows, build_latent_decode_rows

        name = dtype_name(self.dtype)
        scale = (self.latent_dim + self.ROPE) ** -0.5
        latent = Latent(self.heads, self.latent_dim, self.ROPE, name, scale)
        if self.latent_dim == _WIDEST:
            attend = build_latent_decode(latent)
        else:
            how = Rows(self._warpgroups, *_TILES[self.latent_dim])
            attend = build_latent_decode_rows(latent, how=how)
        return SplitPrograms(attend.compile(HOPPER), merge_of(self.heads, self.latent_dim, name))

    def forward(self, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        """Attend."""
        entries = k.shape[1]
        if entries == 0:
            return torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        blocks = q.shape[0] * -(-self.heads // (_ROWS * self._warpgroups))
        columns, _ = _TILES.get(self.latent_dim, (_COLUMNS, 0))
        parts = part_count(blocks, -(-entries // columns), self.blocks)
        operands = (q, q_pe, k[:, :, 0], k_pe[:, :, 0])
        rows = (aligned(part.contiguous()) for part in operands)
        self.program().run(*rows, out=out, parts=parts)
        return out
