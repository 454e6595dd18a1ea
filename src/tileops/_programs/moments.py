"""Mean and spread of groups of numbers in one pass, merged without cancellation.

A state is mean, sum of squares of the distances from it, and number of elements, all float32.
Groups of elements have exact means of their own, so that no square is a difference of large
numbers; an infinite element makes the squares NaN.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tileops._programs.rows import assign
from tileops._programs.vectors import F32, as_float, kept

State = tuple[Any, ...]
_CHAINS = 4  # independent partial sums of a thread, so that additions do not wait for each other


def merge_moments(mine: State, other: State) -> State:
    """The state of two groups, either of which may be empty."""
    count = kept(mine[2] + other[2])
    distance = kept(other[0] - mine[0])
    share = kept(other[2] / T.max(count, 1.0))
    square = mine[1] + other[1] + distance * distance * mine[2] * share
    return mine[0] + distance * share, square, count


def merge_equal_moments(mine: State, other: State) -> State:
    """The state of two groups of equal size: no division."""
    distance = kept(other[0] - mine[0])
    square = mine[1] + other[1] + distance * distance * (mine[2] * 0.5)
    return (mine[0] + other[0]) * 0.5, square, mine[2] + other[2]


def _total(sums: Any) -> Any:
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


@T.macro
def take_moments(state, place, x, first, step, n):
    """Merges `x[first]`, `x[first + step]`, … into element `place` of a state's registers."""
    sums = T.alloc_local((_CHAINS,), F32)
    mean = T.alloc_local((1,), F32)
    for i in T.unroll(_CHAINS):
        sums[i] = 0.0
    for k in T.unroll(n):
        sums[k % _CHAINS] += as_float(x[first + k * step])
    mean[0] = _total(sums) * (1.0 / n)
    for i in T.unroll(_CHAINS):
        sums[i] = 0.0
    for k in T.unroll(n):
        sums[k % _CHAINS] += (as_float(x[first + k * step]) - mean[0]) * (
            as_float(x[first + k * step]) - mean[0]
        )
    sums[0] = _total(sums)
    group = mean[0], sums[0], T.float32(n)
    assign(state, merge_moments(tuple(register[place] for register in state), group), place)
