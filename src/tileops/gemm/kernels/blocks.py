"""Rows that lie in groups, cut into blocks of one group each without asking the host.

The number of blocks follows from extents alone: it is enough for groups of any sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK_ROWS = 64
"""Rows of a block, unless said otherwise."""

GATHERED_BYTES = 1 << 28
"""Most bytes of one operand that are copied at once for blocks."""


class Blocks(NamedTuple):
    """Blocks of groups.

    Attributes:
        group: the group of each block `[B]`; for surplus blocks the last one.
        row: the row at each place `[B, size]`; any row where `holds` is false.
        holds: whether the place has a row `[B, size]`.
        place: where each row of a group stands among all places `[rows]`; any for other rows.
    """

    group: Tensor
    row: Tensor
    holds: Tensor
    place: Tensor


def cut(starts: Tensor, ends: Tensor, rows: int, size: int = BLOCK_ROWS) -> Blocks:
    """The blocks of groups in ascending order.

    Args:
        starts: first row of each group `[G]`, int64.
        ends: the row after its last one, never decreasing.
        rows: all rows, positive.
        size: rows of a block.
    """
    groups, device = starts.numel(), starts.device
    count = (ends - starts + (size - 1)) // size
    last = count.cumsum(0)
    first = last - count
    # A group that has rows leaves at most one block partial.
    block = torch.arange(rows // size + min(rows, groups), device=device)
    group = torch.searchsorted(last, block, right=True).clamp_(max=groups - 1)
    row = starts[group] + (block - first[group]) * size
    row = row[:, None] + torch.arange(size, device=device)
    holds = row < ends[group][:, None]
    index = torch.arange(rows, device=device)
    owner = torch.searchsorted(ends, index, right=True).clamp_(max=groups - 1)
    place = first[owner] * size + index - starts[owner]
    return Blocks(group, row.clamp_(0, rows - 1), holds, place.clamp_(0, row.numel() - 1))


def blocks_at_once(operand: Tensor) -> int:
    """How many blocks may each copy an item of `operand` `[G, …]` at once."""
    return max(1, GATHERED_BYTES // max(1, operand[0].numel() * operand.element_size()))
