"""What a reduction accumulates, as TileLang expressions.

A state is a tuple of registers of one thread; a `Fold` says how it begins, takes an element, merges
with another's and becomes the result. Not for the order in which memory is visited, which
`rows.py` arranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.vectors import F32, as_float, kept

_I32 = "int32"
State = tuple[Any, ...]


@dataclass(frozen=True)
class Fold:
    """How elements become one value.

    Args:
        types: element types of the state.
        start: the state of no elements.
        take: the state after one more element, given state, element and its place in the row. A
            thread's elements come in rising places.
        merge: the state of two groups of elements, in either order.
        finish: the result, given state and the number of elements.
        chains: states a thread keeps side by side, so that additions do not wait for each other.
    """

    types: tuple[str, ...]
    start: tuple[Any, ...]
    take: Callable[[State, Any, Any], State]
    merge: Callable[[State, State], State]
    finish: Callable[[State, Any], Any] = lambda state, count: state[0]
    chains: int = 4


def _float(value: Any) -> Any:
    return as_float(value)


def _additive(term: Callable[[Any], Any], finish: Any = None) -> Fold:
    """A sum of terms in float32."""
    return Fold(
        (F32,),
        (0.0,),
        lambda state, x, place: (state[0] + term(x),),
        lambda mine, other: (mine[0] + other[0],),
        finish or (lambda state, count: state[0]),
    )


def _extreme(pick: Callable[[Any, Any], Any], worst: float, term: Any = _float) -> Fold:
    """The extreme of terms, NaN above all."""
    return Fold(
        (F32,),
        (worst,),
        lambda state, x, place: (pick(state[0], kept(term(x))),),
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
    return Fold((F32, _I32), (worst, 0), take, merge, lambda state, count: state[1], chains=1)


def _counting(finish: Callable[[State, Any], Any]) -> Fold:
    """A function of the number of nonzero elements."""
    return Fold(
        (_I32,),
        (0,),
        lambda state, x, place: (state[0] + T.cast(tirx.NE(x, tirx.const(0, x.dtype)), _I32),),
        lambda mine, other: (mine[0] + other[0],),
        finish,
    )


def exponential(x: Any, half: bool) -> Any:
    """`exp(x)`; for a 16-bit result by the device's own base, which is exact enough there."""
    return T.exp2(x * math.log2(math.e)) if half else T.exp(x)


LOWEST = -3.4028234663852886e38
"""Stands for the maximum of nothing and of -inf, so that differences from it are not NaN."""


def _merge_exponentials(mine: State, other: State) -> State:
    top = kept(T.max(mine[0], other[0]))
    return top, mine[1] * T.exp(mine[0] - top) + other[1] * T.exp(other[0] - top)


EXPONENTIALS = Fold(
    (F32, F32),
    (LOWEST, 0.0),
    lambda state, x, place: _merge_exponentials(state, (kept(as_float(x)), 1.0)),
    _merge_exponentials,
    lambda state, count: state[0] + T.log(state[1]),
    chains=1,
)
"""Maximum, and sum of exponentials of the distances below it; the result is its logarithm."""


FOLDS: Mapping[str, Fold] = {
    "sum": _additive(_float),
    "mean": _additive(_float, lambda state, count: state[0] / as_float(count)),
    "prod": Fold(
        (F32,),
        (1.0,),
        lambda state, x, place: (state[0] * as_float(x),),
        lambda mine, other: (mine[0] * other[0],),
    ),
    "amax": _extreme(_larger, -math.inf),
    "amin": _extreme(_smaller, math.inf),
    "argmax": _place_of(lambda x, held: x > held, -math.inf),
    "argmin": _place_of(lambda x, held: x < held, math.inf),
    "norm 1": _additive(lambda x: T.abs(as_float(x))),
    "norm 2": _additive(lambda x: as_float(x) * as_float(x), lambda state, count: T.sqrt(state[0])),
    "norm inf": _extreme(_larger, 0.0, lambda x: T.abs(as_float(x))),
    "any": _counting(lambda state, count: state[0] > 0),
    "all": _counting(lambda state, count: tirx.EQ(state[0], count)),
    "count_nonzero": _counting(lambda state, count: state[0]),
    "logsumexp": EXPONENTIALS,
}
"""The fold of each function that takes its elements in one pass."""
