"""What the device kernels of the family share: what they refuse, and how keys are parted."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from math import inf

import torch
from torch import Tensor

from tileops._core.dispatch.scratch import scratch

HOPPER = 90
_HALVES = (torch.float16, torch.bfloat16)
_FIXED_TILES = 3.0  # what a block costs beside its tiles of keys, in tiles
_MERGE_TILES = 2.0  # likewise the merging of parts
_MOST_PARTS = 128


def operand_fault(
    dtype: torch.dtype, head_dim: int, sizes: Collection[int], sm_scale: float
) -> str | None:
    """Why operands of this kind are not multiplied on tensor cores, or None."""
    if dtype not in _HALVES:
        return f"attends in float16 and bfloat16, not {str(dtype).removeprefix('torch.')}"
    if head_dim not in sizes:
        return f"attends with heads of {sorted(sizes)} channels, not {head_dim}"
    if not 0 < sm_scale < inf:
        return f"scales scores by a positive finite factor, not by {sm_scale}"
    return None


@lru_cache(maxsize=1024)
def part_count(blocks: int, tiles: int, slots: int) -> int:
    """Into how many parts `tiles` of keys are cut so that all ends soonest.

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

    One part needs none and gets what is never touched.
    """
    if parts == 1:
        unused = out.view(-1).view(torch.float32)
        return unused, unused
    rows = out.shape[0] * out.shape[1] * parts
    partial, sums = scratch(out.device, (rows * out.shape[2],), (rows,))
    return partial, sums
