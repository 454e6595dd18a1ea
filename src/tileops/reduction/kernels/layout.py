"""How the elements that are reduced lie, and how a program walks them.

A layout holds what changes generated code; extents are run-time numbers of the geometry. Row and
column counts decide between programs only where they are too few to keep a device busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from torch import Tensor

from tileops._kernels.alignment import BOUNDARY

_FEW = 264  # rows that leave multiprocessors idle when each has one block
_MOST = (1 << 31) - (1 << 16)  # places in a row and numbers of results are 32 bits
COLUMN_THREADS = 256
"""Threads of a block of columns."""
_IN_FLIGHT = 4  # accesses of a thread of columns that are worth a slice of their own
_BLOCKS = 1024  # that keep a device busy
_PART = 1 << 9  # accesses that are worth a part of a row


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


@dataclass(frozen=True)
class ColumnLayout:
    """Columns that lie side by side, some kept elements innermost or outside innermost rows.

    Args:
        vector: elements of one access along the innermost axis; 1 where columns are of rows.
        lanes: threads side by side.
        parts: whether several blocks share a column.
        rows: how innermost rows are reduced first, None where there are none.
    """

    vector: int
    lanes: int
    parts: bool
    rows: RowLayout | None = None


class Geometry(NamedTuple):
    """Extents of the input as `[matrices, height, width, length]`: height and length are reduced.

    Rows alone have height 1, columns alone length 1.
    """

    matrices: int
    height: int
    width: int
    length: int


def reduction_layout(x: Tensor, axes: Sequence[int]) -> RowLayout | ColumnLayout | None:
    """The layout of `x` once it has no gaps; None where no program serves it."""
    order = memory_order(x) or tuple(range(x.dim()))
    extents = tuple(x.shape[axis] for axis in order)
    shape = geometry(extents, places_of(axes, order))
    if shape is None:
        return None
    reduced = shape.height * shape.length
    results = shape.matrices * shape.width
    if not 0 < reduced <= _MOST or not results or max(results, results * shape.height) > _MOST:
        return None
    if shape.height == 1:
        return _rows(results, shape.length, x.element_size())
    if shape.length == 1:
        vector = gcd(BOUNDARY // x.element_size(), shape.width)
        return _columns(shape, vector, None)
    rows = _rows(results * shape.height, shape.length, x.element_size(), shared=False)
    return _columns(shape, 1, rows)


def memory_order(x: Tensor) -> tuple[int, ...] | None:
    """The axes of a tensor without gaps, outermost in memory first; None where they are in order.

    None too where there are gaps, so that a copy in order is made.
    """
    if x.is_contiguous():
        return None
    order = tuple(sorted(range(x.dim()), key=x.stride, reverse=True))
    return order if x.permute(order).is_contiguous() else None


def places_of(axes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Where the axes are in an order of all axes, ascending."""
    return tuple(place for place, axis in enumerate(order) if axis in axes)


@lru_cache(maxsize=1024)
def geometry(shape: tuple[int, ...], axes: tuple[int, ...]) -> Geometry | None:
    """The input as a stack of matrices of rows, where its axes alternate no more than that."""
    runs: list[tuple[bool, int]] = []  # whether reduced, and how long; innermost first
    for axis in reversed(range(len(shape))):
        reduced, before = axis in axes, runs[-1] if runs else None
        if shape[axis] != 1 and before and before[0] == reduced:
            runs[-1] = reduced, before[1] * shape[axis]
        elif shape[axis] != 1:
            runs.append((reduced, shape[axis]))
    length = runs.pop(0)[1] if runs and runs[0][0] else 1
    width, height, matrices = (*(extent for _, extent in runs), 1, 1, 1)[:3]
    return Geometry(matrices, height, width, length) if len(runs) <= 3 else None


def _rows(rows: int, length: int, item: int, *, shared: bool = True) -> RowLayout:
    """The layout of rows; without `shared` each has one block."""
    vector = BOUNDARY // item
    accesses = length // vector
    lanes = 32 if accesses <= 128 else 128 if accesses <= 1024 else 512
    if rows < _FEW and accesses > 1024:
        lanes = 1024
    parts = shared and rows < _FEW // 4 and accesses >= 1 << 13
    return RowLayout(vector, length % vector != 0, 256 if parts else lanes, parts)


def _columns(shape: Geometry, vector: int, rows: RowLayout | None) -> ColumnLayout:
    accesses = shape.width // vector
    lanes = 32 if accesses > 8 else 8 if accesses > 1 else 1
    blocks = shape.matrices * -(-accesses // lanes)
    parts = blocks < _BLOCKS // 2 and shape.height >= 4 * _IN_FLIGHT * (COLUMN_THREADS // lanes)
    return ColumnLayout(vector, lanes, parts, rows)


def row_parts(rows: int, length: int, vector: int) -> int:
    """Blocks that share a row: as many as keep the device busy, each with work of its own."""
    return max(1, min(4 * _BLOCKS // rows, length // (vector * _PART)))


def column_parts(shape: Geometry, layout: ColumnLayout) -> int:
    """Blocks that share a column."""
    tiles = -(-(shape.width // layout.vector) // layout.lanes)
    worth = _IN_FLIGHT * (COLUMN_THREADS // layout.lanes)
    return max(1, min(-(-_BLOCKS // (shape.matrices * tiles)), shape.height // worth))
