"""Execution arguments: which values an operator takes for each type, and why it takes no other."""

from __future__ import annotations

import torch

_LIMIT = 2**63


def is_int(value: object) -> bool:
    """Whether a value is an integer of 64 bits, which may be symbolic."""
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and -_LIMIT <= value < _LIMIT


def is_float(value: object) -> bool:
    """Whether a value is a real number that a float can hold."""
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and unfit(value, float) is None
    )


def is_str(value: object) -> bool:
    """Whether a value is a text that has an encoding."""
    return isinstance(value, str) and (value.isascii() or unfit(value, str) is None)


def is_bool(value: object) -> bool:
    """Whether a value is a bool."""
    return isinstance(value, bool)


def unfit(value: object, kind: type) -> str | None:
    """Why a value of the right Python type is still not taken, or None."""
    if kind is int and isinstance(value, int) and not -_LIMIT <= value < _LIMIT:
        return "an int of at most 64 bits"
    if kind is float and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            return "a number that a float can hold"
    if kind is str and isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "a str without lone surrogates"
    return None
