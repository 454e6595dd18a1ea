"""The domains that the built-ins share: positive and non-negative integers, lists of lengths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tileops._core.lang.primitives.symbolic import require
from tileops._core.lang.values import shown


def positive(callee: str, **arguments: int) -> None:
    """Require each argument to be above 0."""
    for name, value in arguments.items():
        require(value > 0, partial(_needs, callee, f"{name} > 0", name, value))


def non_negative(callee: str, **arguments: int) -> None:
    """Require each argument to be at least 0."""
    for name, value in arguments.items():
        require(value >= 0, partial(_needs, callee, f"{name} >= 0", name, value))


def _needs(callee: str, condition: str, name: str, value: object) -> str:
    return f"{callee} needs {condition}, got {name}={shown(value)}"


def lengths(callee: str, items: Sequence[int], *, at_least: int, may_be_empty: bool) -> None:
    """Require a list of lengths, each at least `at_least`.

    Raises:
        ValueError: it is not one.
    """
    if not items and not may_be_empty:
        raise ValueError(f"{callee} needs at least one length, got none")
    for position, item in enumerate(items):
        if item < at_least:
            got = f"got {shown(item)} at position {position}"
            raise ValueError(f"{callee} needs lengths of at least {at_least}, {got}")
