"""Arithmetic of sizes and of sequences of them.

`sum`, `max`, `min`, `all` and `len` are those of the language, under the names that specs use.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from tileops._core.lang.limits import bounded
from tileops._core.lang.primitives.domain import non_negative, positive
from tileops._core.lang.primitives.symbolic import (
    both,
    either,
    is_symbolic,
    maximum,
    minimum,
    require,
    select,
)
from tileops._core.lang.values import shown


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of right-aligned shapes whose axes agree or have length 1.

    Raises:
        ValueError: an axis has two different sizes, neither of which is 1.

    Example:
        >>> broadcast((2, 1, 4), (3, 1))
        (2, 3, 4)
    """
    rank = builtins.max(builtins.len(shape) for shape in shapes)
    axes: list[list[int]] = [[] for _ in range(rank)]
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - builtins.len(shape)):
            non_negative("broadcast", size=size)
            axes[axis].append(size)
    return tuple(_common(sizes) for sizes in axes)


def _common(sizes: Sequence[int]) -> int:
    """The size of an axis from what it is in each shape.

    No choice depends on another one: a compiler would have to settle that by a guard.
    """
    longer = [size for size in sizes if is_symbolic(size) or size != 1]
    for a, b in combinations(longer, 2):
        _require_agreement(a, b)
    for size in longer:
        if not is_symbolic(size):
            return size
    *others, common = longer or [1]
    for size in reversed(others):
        common = select(size == 1, common, size)
    return common


def _require_agreement(a: int, b: int) -> None:
    require(
        either(a == b, a == 1, b == 1),
        lambda: f"broadcast: sizes {shown(a)} and {shown(b)} do not agree",
    )


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉.

    Raises:
        ValueError: `b` is not above 0.

    Example:
        >>> ceil_div(7, 2), ceil_div(-7, 2)
        (4, -3)
    """
    positive("ceil_div", b=b)
    return -(-a // b)


def len(items: Sequence[Any]) -> int:
    """The number of items."""
    return builtins.len(items)


def prod(items: Sequence[int]) -> int:
    """The product, 1 for no items.

    Raises:
        ValueError: the product is too large to be a size.
    """
    result = 1
    for item in items:
        result = bounded(result * item)
    return result


def sum(items: Sequence[int]) -> int:
    """The sum, 0 for no items."""
    return builtins.sum(items)


def max(items: Sequence[int], default: int | None = None) -> int:
    """The largest item; `default` when there is none.

    Raises:
        ValueError: no items and no default.
    """
    return reduce(maximum, items) if items else _default("max", default)


def min(items: Sequence[int], default: int | None = None) -> int:
    """The smallest item; `default` when there is none.

    Raises:
        ValueError: no items and no default.
    """
    return reduce(minimum, items) if items else _default("min", default)


def _default(callee: str, default: int | None) -> int:
    if default is None:
        raise ValueError(f"{callee} of no items needs a default")
    return default


def all(items: Sequence[bool]) -> bool:
    """Whether every item is true; true for no items."""
    result: bool = both(*items)
    return result
