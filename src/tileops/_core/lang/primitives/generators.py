"""Generators of metadata that the arguments alone determine.

`L` is a list of lengths, one per segment of a packed axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tileops._core.lang.limits import check_items
from tileops._core.lang.primitives.contents import Contents, check_size, vector
from tileops._core.lang.primitives.domain import lengths, non_negative, positive
from tileops._core.lang.primitives.sizes import ceil_div
from tileops._core.lang.values import shown


def as_tensor(L: Sequence[int]) -> Contents:  # noqa: N803
    """The lengths themselves.

    Raises:
        ValueError: a negative length.
    """
    lengths("as_tensor", L, at_least=0, may_be_empty=True)
    return vector(list(L))


def prefix_sum(L: Sequence[int]) -> Contents:  # noqa: N803
    """The running sums from 0, one more than there are lengths.

    Raises:
        ValueError: a negative length.

    Example:
        >>> prefix_sum([3, 4]).values
        [0, 3, 7]
    """
    lengths("prefix_sum", L, at_least=0, may_be_empty=True)
    return vector(_starts(L))


def exclusive_prefix_sum(L: Sequence[int]) -> Contents:  # noqa: N803
    """Where each segment starts.

    Raises:
        ValueError: no lengths, or a negative one.

    Example:
        >>> exclusive_prefix_sum([3, 4]).values
        [0, 3]
    """
    lengths("exclusive_prefix_sum", L, at_least=0, may_be_empty=False)
    return vector(_starts(L)[:-1])


def padded_exclusive_prefix_sum(L: Sequence[int], pad: int) -> Contents:  # noqa: N803
    """Where each segment starts when n items take ⌈(n + 1) / pad⌉ · pad places.

    Raises:
        ValueError: no lengths, a negative one, or `pad` is not above 0.
    """
    positive("padded_exclusive_prefix_sum", pad=pad)
    lengths("padded_exclusive_prefix_sum", L, at_least=0, may_be_empty=False)
    return vector(_starts([ceil_div(n + 1, pad) * pad for n in L])[:-1])


def chunk_indices(L: Sequence[int], c: int) -> Contents:  # noqa: N803
    """A row (segment, chunk) for each chunk of at most `c` items.

    Raises:
        ValueError: a negative length, `c` is not above 0, or too many chunks.

    Example:
        >>> chunk_indices([3, 1], 2).values
        [[0, 0], [0, 1], [1, 0]]
    """
    positive("chunk_indices", c=c)
    lengths("chunk_indices", L, at_least=0, may_be_empty=True)
    return _pairs("chunk_indices", [ceil_div(n, c) for n in L])


def chunk_offsets(L: Sequence[int], c: int) -> Contents:  # noqa: N803
    """The running number of chunks of at most `c` items, from 0.

    Raises:
        ValueError: a negative length, or `c` is not above 0.

    Example:
        >>> chunk_offsets([3, 1], 2).values
        [0, 2, 3]
    """
    positive("chunk_offsets", c=c)
    lengths("chunk_offsets", L, at_least=0, may_be_empty=True)
    return vector(_starts([ceil_div(n, c) for n in L]))


def token_indices(L: Sequence[int]) -> Contents:  # noqa: N803
    """A row (segment, place in it) for each packed item.

    Raises:
        ValueError: no lengths, one below 1, or too many items.
    """
    lengths("token_indices", L, at_least=1, may_be_empty=False)
    return _pairs("token_indices", L)


def packed_positions(L: Sequence[int]) -> Contents:  # noqa: N803
    """The place of each packed item in its segment.

    Raises:
        ValueError: no lengths, one below 1, or too many items.

    Example:
        >>> packed_positions([2, 3]).values
        [0, 1, 0, 1, 2]
    """
    lengths("packed_positions", L, at_least=1, may_be_empty=False)
    check_items("packed_positions", sum(L))
    return vector([place for n in L for place in range(n)])


def key_windows(L: Sequence[int], first: int, n: int, side: str) -> Contents:  # noqa: N803
    """One end of the causal window of the packed positions `first` to `first + n - 1`.

    `side` is `"start"` for the first position of the position's segment, `"end"` for the position
    plus 1.

    Raises:
        ValueError: a negative argument or length, or positions beyond the last segment.

    Example:
        >>> key_windows([2, 3], 1, 3, "start").values
        [0, 2, 2]
    """
    non_negative("key_windows", first=first, n=n)
    lengths("key_windows", L, at_least=0, may_be_empty=True)
    total = sum(L)
    if first + n > total:
        raise ValueError(
            f"key_windows needs first + n <= {shown(total)}, the sum of the lengths, "
            f"got first={shown(first)}, n={shown(n)}"
        )
    check_items("key_windows", n)
    if side == "end":
        return vector(list(range(first + 1, first + n + 1)))
    windows: list[int] = []
    for start, length in zip(_starts(L), L, strict=False):
        low, high = max(start, first), min(start + length, first + n)
        windows += [start] * (high - low)
    return vector(windows)


def full(shape: Sequence[int], v: int) -> Contents:
    """`v` everywhere.

    Raises:
        ValueError: a negative size, or too many items.
    """
    sizes = tuple(shape)
    for size in sizes:
        non_negative("full", size=size)
    check_size("full", sizes)
    return Contents(sizes, _filled(sizes, v))


def _filled(sizes: tuple[int, ...], v: int) -> Any:
    """Nested lists of `v`; the bare `v` for no axes."""
    if len(sizes) == 1:
        return [v] * sizes[0]
    return [_filled(sizes[1:], v) for _ in range(sizes[0])] if sizes else v


def _starts(items: Sequence[int]) -> list[int]:
    return list(accumulate(items, initial=0))


def _pairs(callee: str, counts: Sequence[int]) -> Contents:
    """A row (i, j) for each j below the count at i."""
    total = sum(counts)
    check_items(callee, 2 * total)
    rows = [[i, j] for i, count in enumerate(counts) for j in range(count)]
    return Contents((total, 2), rows)
