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
_SHOWN_DEPTH = 4
_SHOWN_CHARACTERS = 200
_ARRAYS = {("torch", "Tensor"), ("numpy", "ndarray")}


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
        listed = ", ".join(f"{name}={shown(value)}" for name, value in self.fields.items())
        return f"{self.kind}({listed})"


def read_field(value: object, name: str) -> object:
    """`value.name` as expressions see it: an enum member stands for its own value."""
    found: object = getattr(value, name)
    return found.value if isinstance(found, enum.Enum) else found


def frozen(value: object) -> object:
    """A value as a record hands it out: a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value


def shown(value: object, depth: int = 0) -> str:
    """A value in a message.

    Its `repr` on one line, dtypes by name, long or deep collections and texts cut. Of tensors and
    arrays the shape and the dtype, never the contents. A value that cannot be shown raises nothing.
    """
    try:
        return _shown(value, depth)
    except Exception as error:
        return f"a value whose text fails with {type(error).__name__}"


def printable(text: str) -> str:
    """A name, a path or a message in one line: what cannot be printed as it is, is escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown_with_type(value: object) -> str:
    """A value with the name of its Python type, for a value of the wrong one."""
    if value is None or _is_array(value):
        return shown(value)
    return f"{shown(value)} ({type(value).__name__})"


def _shown(value: object, depth: int) -> str:
    dtype = name_of(value)
    if dtype is not None:
        return dtype
    if _is_array(value):
        held = name_of(value.dtype) or value.dtype  # type: ignore[attr-defined]
        kind = type(value).__name__.lower()
        return f"a {kind} of shape {_shown(tuple(value.shape), depth)} {held}"  # type: ignore[attr-defined]
    if isinstance(value, tuple | list):
        items = _items(value, depth)
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if type(value) is dict:
        keys, values = _items([*value], depth), _items([*value.values()], depth)
        return f"{{{', '.join(map(_pair, keys, values))}}}"
    if isinstance(value, int) and value.bit_length() > 512:
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(repr(value).splitlines())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _items(values: tuple[object, ...] | list[object], depth: int) -> list[str]:
    """The first items of a collection, each shown."""
    if depth >= _SHOWN_DEPTH:
        return ["…"]
    items = [shown(item, depth + 1) for item in values[:_SHOWN_ITEMS]]
    return [*items, "…"] if len(values) > _SHOWN_ITEMS else items


def _pair(key: str, value: str) -> str:
    return key if key == "…" else f"{key}: {value}"


def _is_array(value: object) -> bool:
    """Whether a value is a tensor or an array, told by its class, so that neither is imported."""
    return any((base.__module__, base.__name__) in _ARRAYS for base in type(value).__mro__)
