"""Truth and arithmetic where sizes may be symbolic.

Nothing here turns a symbolic truth value into a Python one, which would add a guard that the
signature does not need. The one exception is the test of a choice that reads the result of another
choice. A Python operand still decides a connective early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tileops._core.lang.primitives import symbolic as algebra

EVALUATION_FAULTS = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)
"""What evaluating an expression may raise."""


def is_symbolic(value: object) -> bool:
    """Whether a value is a symbolic size or truth."""
    return isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat))


def sym_and(first: Any, *later: Callable[[], Any]) -> Any:
    """Conjunction; a false Python operand stops it."""
    held = first
    for operand in later:
        if not is_symbolic(held):
            held = operand() if held else False
            continue
        value = operand()
        if is_symbolic(value):
            held = held & value
        elif not value:
            return False
    return held


def sym_or(first: Any, *later: Callable[[], Any]) -> Any:
    """Disjunction; a true Python operand stops it."""
    held = first
    for operand in later:
        if not is_symbolic(held):
            held = True if held else operand()
            continue
        value = operand()
        if is_symbolic(value):
            held = held | value
        elif value:
            return True
    return held


def sym_not(value: Any) -> Any:
    """Negation."""
    return torch.sym_not(value) if is_symbolic(value) else not value


def sym_if(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """One of two integers or truth values; under a symbolic test both are evaluated."""
    test = _settled(test)
    if not is_symbolic(test):
        return then() if test else orelse()
    return _select(test, then(), orelse())


def _settled(truth: Any) -> Any:
    """A truth value; one that reads a choice by a guard, since torch cannot nest choices."""
    read = getattr(getattr(truth, "node", None), "expr", None)
    if read is None:
        return truth
    from sympy import Piecewise  # type: ignore[import-untyped]  # late: its import is slow

    return bool(truth) if read.has(Piecewise) else truth


def _select(test: Any, then: Any, orelse: Any) -> Any:
    if isinstance(then, bool | torch.SymBool):
        return _choose(test, _number(then), _number(orelse)) == 1
    return _choose(test, then, orelse)


def _choose(test: Any, then: Any, orelse: Any) -> Any:
    """One of two integers."""
    if type(then) is type(orelse):
        return torch.sym_ite(test, then, orelse)
    return test.__sym_ite__(then, orelse)  # mixes plain and symbolic arms


def equal(a: Any, b: Any) -> Any:
    """Equality of two values: sequences item by item, and truths that torch cannot compare."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return same_items(a, b)
    if not isinstance(a, torch.SymBool):
        a, b = b, a
    if not isinstance(a, torch.SymBool):
        return a == b
    if isinstance(b, torch.SymBool):
        return _number(a) == _number(b)
    return a if b else torch.sym_not(a)


def _number(truth: Any) -> Any:
    """1 or 0: torch fails on some truths that hold another one and its negation both."""
    truth = _settled(truth)
    return torch.sym_ite(truth, 1, 0) if is_symbolic(truth) else int(truth)


def same_items(a: Any, b: Any) -> Any:
    """Equality of two sequences, item by item; a list may equal a tuple, and no single value."""
    if not (isinstance(a, tuple | list) and isinstance(b, tuple | list)):
        return equal(a, b)
    if len(a) != len(b):
        return False
    held: Any = True
    for x, y in zip(a, b, strict=True):
        same = equal(x, y)
        if same is True:
            continue
        if not is_symbolic(same):
            return False
        held = same if held is True else held & same
    return held


def contains(items: Sequence[Any], value: Any) -> Any:
    """Whether some item equals the value."""
    held: Any = False
    for item in items:
        same = equal(item, value)
        if is_symbolic(same):
            held = same if held is False else held | same
        elif same:
            return True
    return held


def nonzero(divisor: Any) -> Any:
    """A divisor, demanded to be other than 0 where that shows at run time only."""
    if is_symbolic(divisor):
        _Algebra().require(divisor != 0, lambda: "integer division or modulo by zero")
    return divisor


class _Algebra:
    """How the built-in primitives deal with symbolic sizes."""

    def require(self, condition: Any, reason: Callable[[], str]) -> None:
        demand(condition, lambda: ValueError(reason()))

    def select(self, condition: Any, then: Any, orelse: Any) -> Any:
        return sym_if(condition, lambda: then, lambda: orelse)

    def both(self, a: Any, b: Any) -> Any:
        return a & b

    def either(self, a: Any, b: Any) -> Any:
        return a | b

    def maximum(self, a: Any, b: Any) -> Any:
        return torch.sym_max(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return torch.sym_min(a, b)


def demand(condition: Any, error: Callable[[], Exception]) -> None:
    """Assert a symbolic truth; what is known to be false at once raises `error`."""
    made: list[Exception] = []

    def message() -> str:
        made.append(error())
        return str(made[0])

    try:
        torch._check(condition, message)
    except RuntimeError:
        if made:
            raise made[0] from None
        raise


algebra.install(_Algebra())
