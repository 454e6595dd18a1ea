"""Facts about the contents of a metadata tensor; `x` are the contents, as nested lists.

They are evaluated on generated values only: on a real call the caller guarantees them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tileops._core.lang.primitives.domain import positive
from tileops._core.lang.primitives.sizes import ceil_div


def prefix_offsets(x: Sequence[int], total: int) -> bool:
    """`x` starts at 0, never decreases and ends at `total`."""
    return bool(x) and x[0] == 0 and x[-1] == total and all(a <= b for a, b in pairwise(x))


def max_segment(x: Sequence[int], bound: int) -> bool:
    """No two neighbours differ by more than `bound`."""
    return all(b - a <= bound for a, b in pairwise(x))


def in_range(x: Sequence[Any], lo: int, hi: int) -> bool:
    """Every item, of any rank, lies in [lo, hi)."""
    return all(lo <= item < hi for item in flat(x))


def sums_to(x: Sequence[int], total: int) -> bool:
    """The items sum to `total`."""
    return sum(x) == total


def exclusive_prefix_of(x: Sequence[int], lengths: Sequence[int]) -> bool:
    """Item i is the sum of the lengths before i, for each length."""
    return list(x) == list(accumulate(lengths, initial=0))[:-1]


def chunk_offsets_of(x: Sequence[int], offsets: Sequence[int], c: int) -> bool:
    """Item i is the number of chunks of at most `c` items in the segments before i.

    Raises:
        ValueError: `c` is not above 0.
    """
    positive("chunk_offsets_of", c=c)
    chunks = [ceil_div(end - start, c) for start, end in pairwise(offsets)]
    return list(x) == list(accumulate(chunks, initial=0))[: len(offsets)]


def indices_within(x: Sequence[Sequence[int]], offsets: Sequence[int]) -> bool:
    """Every row is (i, j) with i a segment of `offsets` and j a place in it."""
    return all(
        len(row) == 2
        and 0 <= row[0] < len(offsets) - 1
        and 0 <= row[1] < offsets[row[0] + 1] - offsets[row[0]]
        for row in x
    )


def flat(nested: Sequence[Any]) -> Iterator[int]:
    """The items of nested lists, in order."""
    for item in nested:
        if isinstance(item, list | tuple):
            yield from flat(item)
        else:
            yield item
