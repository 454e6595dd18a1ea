"""Copies of what a caller may still change after construction.

What was solved from a parameter and what the op computes with must stay one, whatever becomes of
the list, the dict or the algebraic value that was passed. Values that cannot change are kept.
"""

from __future__ import annotations

import copy
import enum
from typing import Any


def owned(value: Any, made: dict[int, Any] | None = None) -> Any:
    """A copy of a container and of those in it, however they lead back to each other.

    Objects of other types are kept as they are.
    """
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, dict):
        new = made[id(value)] = copy.copy(value)
        for key, item in value.items():
            new[key] = owned(item, made)
        return new
    if type(value) is list:
        items = made[id(value)] = list(value)
        items[:] = [owned(item, made) for item in value]
        return items
    if type(value) is tuple:
        return tuple([owned(item, made) for item in value])
    return value.copy() if isinstance(value, set | bytearray) else value


def owned_algebraic(value: Any) -> Any:
    """An algebraic value as the op keeps it: a copy, unless its class promises not to change."""
    dataclass = getattr(type(value), "__dataclass_params__", None)
    is_fixed = dataclass is not None and dataclass.frozen
    return value if is_fixed or isinstance(value, tuple | enum.Enum) else copy.copy(value)
