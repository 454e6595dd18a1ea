"""Values as expressions see them, and how messages show them.

Expressions see dtypes as their names, enum members as their strings, and algebraic values as
objects with `.kind` and one attribute per field: either the user's own instances or an `AdtView`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tileops._core.lang.dtypes import name_of

_SHOWN_ITEMS = 8
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class AdtView:
    """An algebraic value read from data: its constructor and its fields.

    Args:
        kind: name of the constructor.
        fields: the value of each field.
    """

    kind: str
    fields: Mapping[str, object]

    def __getattr__(self, name: str) -> object:
        fields: Mapping[str, object] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"{self.__dict__.get('kind')} has no field {name}")

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.kind}({listed})"


def read_field(value: object, name: str) -> object:
    """`value.name` as expressions see it: an enum member stands for its own value."""
    found: object = getattr(value, name)
    return found.value if isinstance(found, enum.Enum) else found


def shown(value: object, depth: int = 0) -> str:
    """A value in a message: `repr`, dtypes by name, long or deep sequences and texts cut."""
    dtype = name_of(value)
    if dtype is not None:
        return dtype
    if isinstance(value, tuple | list):
        items = [shown(item, depth + 1) for item in value[:_SHOWN_ITEMS]] if depth < 4 else ["…"]
        if len(value) > _SHOWN_ITEMS:
            items.append("…")
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, int) and value.bit_length() > 512:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def shown_with_type(value: object) -> str:
    """A value with the name of its Python type, for a value of the wrong one."""
    return "None" if value is None else f"{shown(value)} ({type(value).__name__})"
