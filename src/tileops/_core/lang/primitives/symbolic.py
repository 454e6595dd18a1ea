"""Arithmetic whose operands may be symbolic sizes, without asking for a Python truth value.

Plain Python values are dealt with here. For a symbolic operand the work goes to an `Algebra`,
which the runtime installs once; without one no symbolic value can arise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol


class Algebra(Protocol):
    """What can be done with symbolic sizes and symbolic truth values."""

    def require(self, condition: Any, reason: Callable[[], str]) -> None:
        """Assert `condition`; `reason` makes the message of its failure."""

    def select(self, condition: Any, then: Any, orelse: Any) -> Any:
        """`then` where `condition` holds, else `orelse`; both are evaluated."""

    def both(self, a: Any, b: Any) -> Any:
        """Conjunction."""

    def either(self, a: Any, b: Any) -> Any:
        """Disjunction."""

    def maximum(self, a: Any, b: Any) -> Any:
        """The larger size."""

    def minimum(self, a: Any, b: Any) -> Any:
        """The smaller size."""


_PLAIN = (int, float, complex, str, tuple, list, type(None))
_installed: list[Algebra] = []


def install(algebra: Algebra) -> None:
    """Have `algebra` serve symbolic operands from now on."""
    _installed[:] = [algebra]


def _algebra() -> Algebra:
    if not _installed:
        raise RuntimeError("no algebra of symbolic sizes is installed")
    return _installed[0]


def is_symbolic(value: object) -> bool:
    """Whether `value` is no plain Python value."""
    return not isinstance(value, _PLAIN)


def require(condition: Any, reason: Callable[[], str]) -> None:
    """A domain condition.

    Raises:
        ValueError: a plain condition is false.
    """
    if is_symbolic(condition):
        _algebra().require(condition, reason)
    elif not condition:
        raise ValueError(reason())


def select(condition: Any, then: Any, orelse: Any) -> Any:
    """`then` where `condition` holds, else `orelse`."""
    if is_symbolic(condition):
        return _algebra().select(condition, then, orelse)
    return then if condition else orelse


def both(*conditions: Any) -> Any:
    """Conjunction; plain operands that decide it do so whatever the others are."""
    unsettled = [c for c in conditions if is_symbolic(c)]
    if not all(c for c in conditions if not is_symbolic(c)):
        return False
    return reduce(_algebra().both, unsettled) if unsettled else True


def either(*conditions: Any) -> Any:
    """Disjunction; plain operands that decide it do so whatever the others are."""
    unsettled = [c for c in conditions if is_symbolic(c)]
    if any(c for c in conditions if not is_symbolic(c)):
        return True
    return reduce(_algebra().either, unsettled) if unsettled else False


def maximum(a: Any, b: Any) -> Any:
    """The larger of two integers."""
    return _algebra().maximum(a, b) if is_symbolic(a) or is_symbolic(b) else max(a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two integers."""
    return _algebra().minimum(a, b) if is_symbolic(a) or is_symbolic(b) else min(a, b)
