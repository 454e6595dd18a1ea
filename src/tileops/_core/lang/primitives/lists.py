"""Lists of lengths that a row or a generator argument names instead of spelling out."""

from __future__ import annotations

from tileops._core.lang.limits import check_items
from tileops._core.lang.primitives.domain import non_negative, positive


def balanced_sizes(total: int, count: int) -> list[int]:
    """`count` lengths that sum to `total`, the first `total % count` one larger than the rest.

    Raises:
        ValueError: `count` is not above 0, `total` is negative, or the list is too long.

    Example:
        >>> balanced_sizes(7, 3)
        [3, 2, 2]
    """
    positive("balanced_sizes", count=count)
    non_negative("balanced_sizes", total=total)
    check_items("balanced_sizes", count)
    size, larger = divmod(total, count)
    return [size + 1] * larger + [size] * (count - larger)


def repeat(value: int, count: int) -> list[int]:
    """`count` copies of `value`.

    Raises:
        ValueError: `count` is negative, or the list is too long.

    Example:
        >>> repeat(512, 3)
        [512, 512, 512]
    """
    non_negative("repeat", count=count)
    check_items("repeat", count)
    return [value] * count
