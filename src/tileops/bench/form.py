"""Whether data from a file have the form that a JSON Schema states.

It knows the keywords that the schema of results uses, and no others. A number that stands for a
place or a count is a whole one, as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

Schema = Mapping[str, Any]

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def misfit(data: Any, schema: Schema) -> str | None:
    """The first place of the data that is not as the schema says; None where all is.

    Args:
        data: plain data.
        schema: the schema of the whole, with its definitions.
    """
    return next(_misfits(data, schema, schema.get("$defs", {}), ""), None)


def _misfits(data: Any, schema: Schema, named: Mapping[str, Schema], place: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = named[schema["$ref"].rpartition("/")[2]]
    wrong = next((name for name, holds in _SIMPLE.items() if not holds(data, schema)), None)
    if wrong is not None:
        yield f"{place or 'the file'} does not have the {wrong} {_shown(schema[wrong])}"
        return
    if isinstance(data, dict):
        yield from (f"{place or 'the file'} has no {name}" for name in _absent(data, schema))
    for step, item, form in chain(_members(data, schema), _entries(data, schema)):
        yield from _misfits(item, form, named, f"{place}{step}".removeprefix("."))


_SIMPLE: Mapping[str, Callable[[Any, Schema], bool]] = {
    "const": lambda data, schema: "const" not in schema or _is_same(data, schema["const"]),
    "enum": lambda data, schema: "enum" not in schema or data in schema["enum"],
    "type": lambda data, schema: "type" not in schema or _is_of(data, schema["type"]),
    "minimum": lambda data, schema: "minimum" not in schema or _is_bound(schema["minimum"], data),
    "maximum": lambda data, schema: "maximum" not in schema or _is_bound(data, schema["maximum"]),
}
"""What a keyword asks of a value by itself, the type before what presumes it."""


def _is_same(data: Any, wanted: Any) -> bool:
    return type(data) is type(wanted) and bool(data == wanted)  # a true value is no 1


def _is_of(data: Any, wanted: str | list[str]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if isinstance(data, bool):  # which Python counts among whole numbers
        return "boolean" in names
    return any(isinstance(data, TYPES[name]) for name in names)


def _is_bound(low: Any, high: Any) -> bool:
    """Whether one is no more than the other; bounds are of numbers, and no number is in order."""
    return low is None or high is None or bool(low <= high)


def _shown(wanted: Any) -> str:
    return " or ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)


def _absent(data: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    return (name for name in schema.get("required", ()) if name not in data)


def _members(data: Any, schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    if not isinstance(data, dict):
        return
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, item in data.items():
        form = known.get(name, others)
        if form:  # of what is unknown anything may be said, however deep
            yield f".{name}", item, form


def _entries(data: Any, schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    if isinstance(data, list):
        for place, item in enumerate(data):
            yield f"[{place}]", item, schema.get("items", {})
