"""What the device kernels of the family share: what they refuse, and how keys are parted."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, Union

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import dtype_name
from tileops._kernels.scratch import scratch
from tileops.attention.kernels.dense import DenseAttentionCall
from tileops.attention.kernels.paged import PagedPrefillCall
from tileops.attention.kernels.varlen import VarlenAttentionCall

AttentionCall = Union[DenseAttentionCall, VarlenAttentionCall, PagedPrefillCall]
"""The call specs of softmax attention, which name the same facts of heads."""

PAGE_UNIT = 64
"""Rows that every tile of keys is a multiple of: pages divide it or are multiples."""
SMALLEST_PAGE = 8
"""Rows of the smallest page: fewer are no whole pattern of a swizzled tile."""
HALVES = (torch.float16, torch.bfloat16)
"""Element types that tensor cores multiply here."""
_FIXED_TILES = 3.0  # what a block costs beside its tiles of keys, in tiles
_MERGE_TILES = 2.0  # likewise the merging of parts
_MOST_PARTS = 128


class Group(NamedTuple):
    """The heads of a kernel, and the bounds of their scores.

    Attributes:
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        sm_scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
        dtype: element type.
        sm_count: multiprocessors.
    """

    heads: int
    kv_heads: int
    head_dim: int
    sm_scale: float
    softcap: float
    dtype: torch.dtype
    sm_count: int

    @classmethod
    def of(cls, call: AttentionCall) -> Group:
        """The heads of a call."""
        return cls(
            call.heads, call.kv_heads, call.head_dim, call.sm_scale, call.softcap, call.dtype,
            call.sm_count,
        )  # fmt: skip

    @property
    def dtype_name(self) -> str:
        """The element type as programs name it."""
        return dtype_name(self.dtype)

    def of_programs(self) -> Any:
        """The heads as programs take them."""
        from tileops.attention.programs.softmax import Heads

        return Heads(
            self.heads, self.kv_heads, self.head_dim, self.dtype_name, self.sm_scale, self.softcap
        )


def operand_fault(call: AttentionCall, sizes: Collection[int]) -> str | None:
    """Why operands of this kind are not multiplied on tensor cores, or None."""
    if call.dtype not in HALVES:
        return f"attends in float16 and bfloat16, not {dtype_name(call.dtype)}"
    if call.head_dim not in sizes:
        return f"attends with heads of {sorted(sizes)} channels, not {call.head_dim}"
    if not 0 < call.sm_scale < inf:
        return f"scales scores by a positive finite factor, not by {call.sm_scale}"
    return None


def page_fault(call: PagedPrefillCall) -> str | None:
    """Why tiles of 64 rows are not read from such pages, or None."""
    if call.cache_dtype != call.dtype:
        return "reads pages of the queries' dtype only"
    size = call.page_size
    if size % PAGE_UNIT and (PAGE_UNIT % size or size < SMALLEST_PAGE):
        return f"reads pages of 8, 16, 32 or a multiple of {PAGE_UNIT} rows, not {size}"
    return None


@lru_cache(maxsize=1024)
def part_count(blocks: int, tiles: int, slots: int) -> int:
    """How many parts to cut `tiles` of keys into, so that the whole ends soonest.

    Args:
        blocks: blocks that one part of every request takes.
        tiles: tiles of keys of a request.
        slots: blocks that the device runs at once.
    """

    def cost(parts: int) -> float:
        waves = -(-blocks * parts // slots)
        return waves * (-(-tiles // parts) + _FIXED_TILES) + (_MERGE_TILES if parts > 1 else 0.0)

    return min(range(1, max(1, min(_MOST_PARTS, tiles)) + 1), key=cost)


def part_memory(out: Tensor, parts: int) -> tuple[Tensor, Tensor]:
    """Float32 memory for the parts of `out` `[T, H, D]`, and for logarithms of their sums.

    A single part needs no memory: what it gets is never touched.
    """
    if parts == 1:
        unused = out.view(-1).view(torch.float32)
        return unused, unused
    rows = out.shape[0] * out.shape[1] * parts
    partial, sums = scratch(out.device, (rows * out.shape[2],), (rows,))
    return partial, sums
