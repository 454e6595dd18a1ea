"""What a reduction accumulates, as TileLang expressions.

A state is a tuple of registers of one thread; a `Fold` says how it begins, takes elements, merges
with another's and becomes the results. Not for the order in which memory is visited, which
`rows.py` and `columns.py` arrange.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.moments import merge_moments, take_moments
from tileops._programs.rows import assign
from tileops._programs.vectors import F32, as_float, kept

_I32 = "int32"
State = tuple[Any, ...]


@dataclass(frozen=True)
class Fold:
    """How elements become one value, or two.

    Args:
        types: element types of the state, 32 bits each.
        start: the state of no elements.
        take: a macro `take(state, chain, x, first, step, n, place, stride)` that adds `n` elements
            to element `chain` of the state's registers: `x[first]`, `x[first + step]`, …, which
            stand in the places `place`, `place + stride`, …. A thread's places rise.
        merge: the state of two groups of elements, in either order.
        finish: the results, given state and the number of elements.
        chains: states a thread keeps side by side, so that additions do not wait for each other.
        grouped: whether many elements taken at once cost less than one by one.
    """

    types: tuple[str, ...]
    start: tuple[Any, ...]
    take: Callable[..., Any]
    merge: Callable[[State, State], State]
    finish: Callable[[State, Any], tuple[Any, ...]] = lambda state, count: state[:1]
    chains: int = 4
    grouped: bool = False


def at(registers: State, place: int) -> State:
    """The values in one place of registers."""
    return tuple(register[place] for register in registers)


def _one_by_one(take: Callable[[State, Any, Any], State]) -> Callable[..., Any]:
    """Makes a macro of the state after one more element, given state, element and its place."""

    @T.macro
    def take_all(state, chain, x, first, step, n, place, stride):
        for k in T.unroll(n):
            values = take(at(state, chain), x[first + k * step], place + k * stride)
            assign(state, values, chain)

    return take_all


def _additive(term: Callable[[Any], Any], finish: Any = None) -> Fold:
    """A sum of terms in float32."""
    return Fold(
        (F32,),
        (0.0,),
        _one_by_one(lambda state, x, place: (state[0] + term(x),)),
        lambda mine, other: (mine[0] + other[0],),
        finish or (lambda state, count: (state[0],)),
    )


def _extreme(pick: Callable[[Any, Any], Any], worst: float, term: Any = as_float) -> Fold:
    """The extreme of terms, NaN above all."""
    return Fold(
        (F32,),
        (worst,),
        _one_by_one(lambda state, x, place: (pick(state[0], kept(term(x))),)),
        lambda mine, other: (pick(mine[0], other[0]),),
    )


def _larger(held: Any, x: Any) -> Any:
    return tirx.Select(T.Or(x > held, T.isnan(x)), x, held)


def _smaller(held: Any, x: Any) -> Any:
    return tirx.Select(T.Or(x < held, T.isnan(x)), x, held)


def _place_of(beats: Callable[[Any, Any], Any], worst: float) -> Fold:
    """The first place of the extreme, NaN above all."""

    def take(state: State, element: Any, place: Any) -> State:
        x = kept(as_float(element))
        better = kept(T.Or(beats(x, state[0]), T.And(T.isnan(x), T.Not(T.isnan(state[0])))))
        return tirx.Select(better, x, state[0]), tirx.Select(better, place, state[1])

    def merge(mine: State, other: State) -> State:
        (x, place), (held, first) = other, mine
        nan_x, nan_held = T.isnan(x), T.isnan(held)
        equal = T.Or(tirx.EQ(x, held), T.And(nan_x, nan_held))
        ahead = T.Or(beats(x, held), T.And(nan_x, T.Not(nan_held)))
        better = kept(T.Or(ahead, T.And(equal, place < first)))
        return tirx.Select(better, x, held), tirx.Select(better, place, first)

    # Where no element beats the worst value, the first place is the answer.
    return Fold(
        (F32, _I32), (worst, 0), _one_by_one(take), merge, lambda state, count: state[1:], chains=1
    )


def _counting(finish: Callable[[State, Any], tuple[Any, ...]]) -> Fold:
    """A function of the number of nonzero elements."""
    return Fold(
        (_I32,),
        (0,),
        _one_by_one(
            lambda state, x, place: (state[0] + T.cast(tirx.NE(x, tirx.const(0, x.dtype)), _I32),)
        ),
        lambda mine, other: (mine[0] + other[0],),
        finish,
    )


def exponential(x: Any, half: bool) -> Any:
    """`exp(x)`; for a 16-bit result by the device's own base, which is exact enough there."""
    return T.exp2(x * math.log2(math.e)) if half else T.exp(x)


LOWEST = -3.4028234663852886e38
"""Stands for the maximum of nothing and of -inf, so that differences from it are not NaN."""


def exponentials(half: bool, *, bounded: bool) -> Fold:
    """Maximum, and sum of exponentials of the distances below it; the result is its logarithm.

    Args:
        half: whether results are rounded to 16 bits.
        bounded: whether +inf counts as the largest finite number, so that its distance below
            itself is not NaN.
    """

    def merge(mine: State, other: State) -> State:
        top = kept(T.max(mine[0], other[0]))
        return top, mine[1] * T.exp(mine[0] - top) + other[1] * T.exp(other[0] - top)

    @T.macro
    def take(state, chain, x, first, step, n, place, stride):
        """One correction of the sum for all elements."""
        before = T.alloc_local((1,), F32)
        before[0] = state[0][chain]
        for k in T.unroll(n):
            state[0][chain] = T.max(state[0][chain], as_float(x[first + k * step]))
        if bounded:
            state[0][chain] = T.min(state[0][chain], -LOWEST)
        state[1][chain] = state[1][chain] * exponential(before[0] - state[0][chain], half)
        for k in T.unroll(n):
            state[1][chain] += exponential(as_float(x[first + k * step]) - state[0][chain], half)

    return Fold(
        (F32, F32),
        (LOWEST, 0.0),
        take,
        merge,
        lambda state, count: (state[0] + T.log(state[1]),),
        chains=1,
        grouped=True,
    )


@T.macro
def _take_moments(state, chain, x, first, step, n, place, stride):
    take_moments(state, chain, x, first, step, n)


def _spread(function: str, correction: float) -> Fold:
    """Variance, standard deviation, or variance and mean; NaN without a positive divisor."""

    def finish(state: State, count: Any) -> tuple[Any, ...]:
        divisor = kept(as_float(count) - correction)
        variance = kept(T.if_then_else(divisor > 0.0, state[1] / divisor, T.float32(math.nan)))
        if function == "var_mean":
            return variance, state[0]
        return (T.sqrt(variance) if function == "std" else variance,)

    start = (0.0, 0.0, 0.0)
    return Fold((F32,) * 3, start, _take_moments, merge_moments, finish, chains=1, grouped=True)


_FOLDS: Mapping[str, Fold] = {
    "sum": _additive(as_float),
    "mean": _additive(as_float, lambda state, count: (state[0] / as_float(count),)),
    "prod": Fold(
        (F32,),
        (1.0,),
        _one_by_one(lambda state, x, place: (state[0] * as_float(x),)),
        lambda mine, other: (mine[0] * other[0],),
    ),
    "amax": _extreme(_larger, -math.inf),
    "amin": _extreme(_smaller, math.inf),
    "argmax": _place_of(lambda x, held: x > held, -math.inf),
    "argmin": _place_of(lambda x, held: x < held, math.inf),
    "norm 1": _additive(lambda x: T.abs(as_float(x))),
    "norm 2": _additive(
        lambda x: as_float(x) * as_float(x), lambda state, count: (T.sqrt(state[0]),)
    ),
    "norm inf": _extreme(_larger, 0.0, lambda x: T.abs(as_float(x))),
    "any": _counting(lambda state, count: (state[0] > 0,)),
    "all": _counting(lambda state, count: (tirx.EQ(state[0], count),)),
    "count_nonzero": _counting(lambda state, count: (state[0],)),
}


def fold_of(function: str, *, half: bool = False, correction: float = 1.0) -> Fold:
    """The fold of a function of elements in one pass.

    Args:
        function: its name, with the order of a norm.
        half: whether results are rounded to 16 bits.
        correction: subtracted from the divisor of a variance.
    """
    if function == "logsumexp":
        return exponentials(half, bounded=True)
    return _FOLDS.get(function) or _spread(function, correction)
