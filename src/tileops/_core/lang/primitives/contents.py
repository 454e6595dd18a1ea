"""What a generator yields."""

from __future__ import annotations

from typing import Any, NamedTuple

from tileops._core.lang.limits import check_items

_MAX_RANK = 64


class Contents(NamedTuple):
    """The integers of a metadata tensor.

    Args:
        shape: its shape.
        values: nested lists, one level per axis; the bare integer for no axes.
    """

    shape: tuple[int, ...]
    values: Any


def vector(values: list[int]) -> Contents:
    """Contents of rank 1."""
    return Contents((len(values),), values)


def check_size(callee: str, shape: tuple[int, ...]) -> None:
    """Refuse a shape of too many items or axes.

    Raises:
        ValueError: too many of either.
    """
    if len(shape) > _MAX_RANK:
        raise ValueError(f"{callee} makes at most {_MAX_RANK} axes")
    count = 1
    for size in shape:
        count *= max(size, 1)
        check_items(callee, count)
