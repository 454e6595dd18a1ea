"""Axes of a shape: which are valid, what reducing along them leaves, one value per axis.

For rank r > 0 an axis lies in [-r, r) and stands for `axis % r`. For rank 0 the axes 0 and -1
both stand for the one scalar axis. `None` stands for all axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tileops._core.lang.primitives.domain import non_negative
from tileops._core.lang.values import shown

Axes: TypeAlias = int | Sequence[int] | None


def _listed(dim: int | Sequence[int]) -> Sequence[int]:
    return (dim,) if isinstance(dim, int) else dim


def _is_valid(axis: int, rank: int) -> bool:
    return -max(rank, 1) <= axis < max(rank, 1)


def _normalised(callee: str, dim: int | Sequence[int], rank: int) -> list[int]:
    """Each axis as its place in the shape."""
    for axis in _listed(dim):
        if not _is_valid(axis, rank):
            raise ValueError(f"{callee}: axis {shown(axis)} is out of range for rank {shown(rank)}")
    return [axis % max(rank, 1) for axis in _listed(dim)]


def reduced(shape: Sequence[int], dim: Axes, keepdim: bool, mode: str) -> tuple[int, ...]:
    """The shape that a reduction along `dim` leaves.

    Args:
        shape: the shape reduced.
        dim: one axis, several, or `None` for all.
        keepdim: keep reduced axes with length 1.
        mode: what an empty sequence of axes means: `"full"` all axes, `"noop"` none, `"reject"`
            an error.

    Raises:
        ValueError: an axis is out of range, or there is none and the mode rejects that.

    Example:
        >>> reduced((2, 3, 4), (0, -1), False, "full")
        (3,)
    """
    for size in shape:
        non_negative("reduced", size=size)
    axes = range(len(shape)) if dim is None else _normalised("reduced", dim, len(shape))
    if dim is not None and not axes:
        if mode == "reject":
            raise ValueError("reduced needs at least one axis, got none")
        axes = range(len(shape)) if mode == "full" else axes
    dropped = set(axes)
    if keepdim:
        return tuple(1 if axis in dropped else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in dropped)


def valid_axes(dim: Axes, rank: int) -> bool:
    """Whether every axis is in range; never an error.

    Example:
        >>> valid_axes((0, 2), 2)
        False
    """
    return dim is None or all(_is_valid(axis, rank) for axis in _listed(dim))


def unique_axes(dim: Axes, rank: int) -> bool:
    """Whether no axis occurs twice; true for one axis and for `None`.

    Raises:
        ValueError: an axis is out of range.

    Example:
        >>> unique_axes((0, -2), 2)
        False
    """
    if dim is None:
        return True
    axes = _normalised("unique_axes", dim, rank)
    return len(set(axes)) == len(axes)


def per_axis(
    v: int | Sequence[int | None] | None, i: int, n: int, fallback: int | None = None
) -> int:
    """The value for axis `i` of `n` of a parameter that is one number or one per axis.

    Raises:
        ValueError: a sequence of another length than `n`, an `i` outside [0, n), or no value where
            there is no fallback.

    Example:
        >>> per_axis(3, 1, 2), per_axis((3, None), 1, 2, 5)
        (3, 5)
    """
    if not 0 <= i < n:
        raise ValueError(f"per_axis needs 0 <= i < n, got i={shown(i)}, n={shown(n)}")
    if isinstance(v, Sequence):
        if len(v) != n:
            raise ValueError(f"per_axis needs {shown(n)} values, got {len(v)}")
        v = v[i]
    value = fallback if v is None else v
    if value is None:
        raise ValueError(f"per_axis: no value for axis {shown(i)} and no fallback")
    return value
