"""How the elements that are reduced lie, and how a program walks them.

The row count decides between programs only where there are few rows; it is compiled into none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

from tileops._core.dispatch.alignment import BOUNDARY

_FEW = 264  # rows that leave multiprocessors idle when each has one block
_LONGEST = (1 << 31) - (1 << 16)  # places in a row are 32 bits


@dataclass(frozen=True)
class RowLayout:
    """Rows that lie one after another, the reduced elements innermost.

    Args:
        vector: elements of one access.
        ragged: whether rows may begin within an access.
        lanes: threads that share a row.
        parts: whether several blocks share a row.
    """

    vector: int
    ragged: bool
    lanes: int
    parts: bool


def row_layout(x: Tensor, axes: Sequence[int]) -> RowLayout | None:
    """The layout of `x` once `as_rows` has made it contiguous; None where no program serves it."""
    length = prod(x.shape[axis] for axis in axes)
    if not 0 < length <= _LONGEST or not _innermost(x, axes):
        return None
    rows = x.numel() // length
    vector = BOUNDARY // x.element_size()
    accesses = length // vector
    lanes = 32 if accesses <= 128 else 128 if accesses <= 1024 else 512
    if rows < _FEW and accesses > 1024:
        lanes = 1024
    parts = rows < _FEW // 4 and accesses >= 1 << 14
    return RowLayout(vector, length % vector != 0, 256 if parts else lanes, parts)


def _innermost(x: Tensor, axes: Sequence[int]) -> bool:
    """Whether the axes are the last ones, but for axes of length 1."""
    real = [axis for axis in range(x.dim()) if x.shape[axis] != 1]
    reduced = [axis for axis in real if axis in axes]
    return real[len(real) - len(reduced) :] == reduced
