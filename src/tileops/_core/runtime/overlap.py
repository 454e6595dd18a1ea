"""Whether two items of a tensor share a place in memory.

Decided from sizes and strides. A tensor whose strides, in order, each step over all that the
smaller ones reach has no two such items, and most tensors are told apart by that alone. Else two
items share a place exactly when some steps along the axes, not all of them 0, come back to where
they began; a search finds them or shows that there are none. Symbolic sizes get no guards.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from tileops._core.runtime.symbolic import sym_and, sym_or

_MOST_STEPS = 1 << 14
"""Steps of a search after which a tensor counts as overlapping: nothing shows that it is not."""


class _Axis(NamedTuple):
    """An axis with more than one item, and what those with smaller strides add up to."""

    stride: int
    most: int  # steps from the first item to the last
    reach: int  # how far all smaller axes reach together
    divisor: int  # what divides all their strides; 0 where there is none


def items_are_distinct(tensor: torch.Tensor) -> Any:
    """Whether no two items share a place; symbolic where a symbolic size decides.

    What only symbolic strides could tell counts as distinct: a trace is followed by a call.
    """
    sizes, strides = tensor.shape, tensor.stride()
    if all(type(number) is int for number in (*sizes, *strides)):
        return tensor.is_contiguous() or not overlaps(tuple(sizes), strides)
    return _symbolically_distinct(sizes, strides)


def _symbolically_distinct(sizes: Sequence[Any], strides: Sequence[Any]) -> Any:
    """The same of a traced tensor: judged by the axes whose sizes and strides are known."""
    axes = list(zip(sizes, strides, strict=True))
    known = [axis for axis in axes if all(type(number) is int for number in axis)]
    held: Any = not overlaps(tuple(size for size, _ in known), tuple(step for _, step in known))
    repeating = [size for size, stride in axes if type(stride) is int and stride == 0]
    held = sym_and(held, *(partial(operator.le, size, 1) for size in repeating))
    return sym_or(held, *(partial(operator.eq, size, 0) for size in sizes))


def overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two items of a strided tensor share a place.

    Example:
        >>> overlaps((2, 3), (1, 1)), overlaps((2, 3), (1, 2)), overlaps((2, 3), (3, 2))
        (True, False, False)
    """
    if 0 in sizes:
        return False
    long = sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    if long and long[0][0] == 0:
        return True
    axes: list[_Axis] = []
    reach = divisor = 0
    for stride, size in long:
        axes.append(_Axis(stride, size - 1, reach, divisor))
        reach += stride * (size - 1)
        divisor = math.gcd(divisor, stride)
    if all(axis.stride > axis.reach for axis in axes):
        return False
    # Items that lie within fewer places than there are of them cannot be distinct.
    if math.prod(axis.most + 1 for axis in axes) > reach // divisor + 1:
        return True
    return _Search(axes).finds_return()


class _Search:
    """A search for steps along some axes, not all 0, that come back to where they began.

    Args:
        axes: by rising stride.
    """

    def __init__(self, axes: list[_Axis]) -> None:
        self._axes = axes
        self._steps = 0

    def finds_return(self) -> bool:
        """Whether there are such steps, or too many ways to look for them."""
        for place, axis in enumerate(self._axes):
            # The largest axis on which a step is taken; by symmetry its steps go forwards.
            last = min(axis.most, axis.reach // axis.stride)
            first, period = _congruent(1, axis, 0)
            for count in range(first, last + 1, period):
                if self._leads_to(count * axis.stride, place - 1):
                    return True
        return False

    def _leads_to(self, target: int, place: int) -> bool:
        """Whether steps along the axes up to a place add up to a distance."""
        self._steps += 1
        if target == 0 or self._steps > _MOST_STEPS:
            return True
        if place < 0:
            return False
        axis = self._axes[place]
        first = max(-axis.most, -((axis.reach - target) // axis.stride))
        last = min(axis.most, (target + axis.reach) // axis.stride)
        first, period = _congruent(first, axis, target)
        return any(
            self._leads_to(target - count * axis.stride, place - 1)
            for count in range(first, last + 1, period)
        )


def _congruent(first: int, axis: _Axis, target: int) -> tuple[int, int]:
    """The first count from some on that smaller axes can complete to a target, and the period.

    They reach multiples of the divisor only, and `target - count * stride` must be one. Where there
    are none, the caller's bounds leave just the count that ends at the target, if there is one.
    """
    if axis.divisor == 0:
        return first, 1
    common = math.gcd(axis.stride, axis.divisor)
    if target % common:
        return axis.most + 1, 1
    period = axis.divisor // common
    wanted = target // common * pow(axis.stride // common, -1, period) % period
    return first + (wanted - first) % period, period
