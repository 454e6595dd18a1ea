"""Bounds on what evaluating an expression may cost."""

from __future__ import annotations

from typing import Any

MAX_BITS = 4096
"""Bits of an integer that an expression may compute."""

MAX_ITEMS = 1 << 24
"""Items of a sequence or a metadata tensor that a call may make."""

MAX_STEPS = 1 << 20
"""Nodes that one evaluation may visit, items of a `for` form counted each."""


def bounded(number: Any) -> Any:
    """`number`, unless it is an integer that is too large.

    Raises:
        ValueError: an integer of more than `MAX_BITS` bits.
    """
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise ValueError(f"an integer of more than {MAX_BITS} bits")
    return number


def check_items(callee: str, count: int) -> None:
    """Refuse to make more than `MAX_ITEMS` items.

    Raises:
        ValueError: too many items.
    """
    if count > MAX_ITEMS:
        raise ValueError(f"{callee} makes at most {MAX_ITEMS} items")
