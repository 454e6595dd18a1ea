"""Patterns of type families: which values of a subject they admit, and which make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileops._core.lang.kinds import (
    AdtKind,
    BoolKind,
    EnumKind,
    Kind,
    MaybeKind,
    UnknownKind,
    payload,
)
from tileops._core.signature.plan import Value
from tileops._core.spec.model import AbsentPattern, Adt, AdtPattern, Pattern, Wildcard


def matches(pattern: Pattern, value: Value) -> bool:
    """Whether a pattern admits a subject's value."""
    if isinstance(pattern, Wildcard):
        return True
    if isinstance(pattern, AbsentPattern):
        return value is None
    if isinstance(pattern, AdtPattern):
        if not isinstance(value, tuple):
            return False
        constructor, fields = cast("tuple[str, tuple[tuple[str, object], ...]]", value)
        return pattern.constructor == constructor and set(pattern.fields) <= set(fields)
    return type(pattern) is type(value) and pattern == value


def pattern_fault(pattern: Pattern, kind: Kind, adts: Mapping[str, Adt]) -> str | None:
    """Why a pattern matches no value of a kind, None when it may."""
    if isinstance(kind, UnknownKind) or isinstance(pattern, Wildcard):
        return None
    if isinstance(pattern, AbsentPattern):
        return None if isinstance(kind, MaybeKind) else f"null, but the subject is {kind}"
    inner = payload(kind)
    if isinstance(pattern, AdtPattern):
        if isinstance(inner, AdtKind):
            return _adt_fault(pattern, adts.get(inner.name))
        fits = False
    elif isinstance(pattern, bool):
        fits = isinstance(inner, BoolKind)
    else:
        fits = isinstance(inner, EnumKind) and pattern in inner.literals
    return None if fits else f"{shown(pattern)} is not a value of the subject, which is {kind}"


def _adt_fault(pattern: AdtPattern, adt: Adt | None) -> str | None:
    if adt is None:
        return None
    constructor = adt.constructors.get(pattern.constructor)
    if constructor is None:
        known = ", ".join(adt.constructors)
        return f"{adt.name} has no constructor {pattern.constructor!r}, it has {known}"
    for name, value in pattern.fields:
        field = constructor.fields.get(name)
        if field is None:
            return f"constructor {pattern.constructor!r} has no field {name!r}"
        if field.kind is not None and not isinstance(field.kind, BoolKind | EnumKind):
            return f"field {name!r} is {field.kind}, which is not finite"
        if field.kind is not None and pattern_fault(value, field.kind, {}):
            return f"field {name!r} is never {shown(value)}"
    return None


def shown(value: object) -> str:
    """A pattern, or a subject's value, as YAML writes it."""
    if isinstance(value, Wildcard):
        return "_"
    if value is None or isinstance(value, AbsentPattern):
        return "null"
    if isinstance(value, AdtPattern):
        return _shown_adt(value.constructor, value.fields)
    if isinstance(value, tuple):
        return _shown_adt(*value)
    if isinstance(value, str):
        return value if value and value == value.strip() else repr(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown_adt(constructor: str, fields: tuple[tuple[str, Any], ...]) -> str:
    if not fields:
        return f"{{{constructor}: _}}"
    return f"{{{constructor}: {{{', '.join(f'{n}: {shown(v)}' for n, v in fields)}}}}}"
