"""The `types` section: type families, their formals, subjects and cases."""

from __future__ import annotations

from collections.abc import Mapping

from tileops._core.lang.faults import LanguageFault
from tileops._core.lang.kind_text import parse_formal_kind
from tileops._core.lang.kinds import Kind
from tileops._core.lang.nodes import Expr
from tileops._core.spec.declarations import expression, missing, shape
from tileops._core.spec.entries import Entry, section, show
from tileops._core.spec.model import (
    AbsentPattern,
    AdtPattern,
    AdtTable,
    Declaration,
    FamilyCase,
    Pattern,
    TypeFamily,
    Wildcard,
)
from tileops._core.spec.names import name_fault
from tileops._core.spec.yaml12 import Node


def read_families(entries: Mapping[str, Entry], adts: AdtTable) -> dict[str, TypeFamily]:
    """Read the definitions in order."""
    return {name: _read_family(name, entry, adts) for name, entry in entries.items()}


def _read_family(name: str, entry: Entry, adts: AdtTable) -> TypeFamily:
    fields = entry.fields(18, ("params", "match", "cases"), "a type family")
    formals = section(fields, "params")
    subjects, is_list = _read_match(entry, fields.get("match"))
    cases: list[FamilyCase] = []
    if "cases" not in fields:
        missing(entry, "cases", 18)
    else:
        components = len(subjects) if is_list else None
        readable = bool(subjects)
        cases = [_read_case(item, components, readable) for item in fields["cases"].items(18)]
        if fields["cases"].value == []:
            fields["cases"].error(18, "expected at least one case")
    return TypeFamily(
        name=name,
        formals=_read_formals(formals, adts) if formals else {},
        subjects=subjects,
        cases=tuple(cases),
        location=entry.location,
    )


def _read_formals(entry: Entry, adts: AdtTable) -> dict[str, Kind | None]:
    formals: dict[str, Kind | None] = {}
    for name, item in entry.mapping(18).items():
        fault = name_fault(name)
        if fault:
            item.error(18, fault)
        formals[name] = _read_formal(item, adts)
    return formals


def _read_formal(entry: Entry, adts: AdtTable) -> Kind | None:
    text = entry.text(18, "a kind")
    if text is None:
        return None
    try:
        return parse_formal_kind(text, adts.names)
    except LanguageFault as fault:
        entry.error(18, f"{fault.message}, got {text!r}")
        return None


def _read_match(owner: Entry, entry: Entry | None) -> tuple[tuple[Declaration[Expr], ...], bool]:
    """The subjects, and whether they were written as a list."""
    if entry is None:
        missing(owner, "match", 18)
        return (), False
    if not isinstance(entry.value, list):
        return (expression(entry, 18),), False
    if not entry.value:
        entry.error(18, "expected at least one expression")
    return tuple(expression(item, 18) for item in entry.items(18)), True


def _read_case(entry: Entry, components: int | None, readable: bool) -> FamilyCase:
    """One case; `components` is None when `match` is a single expression."""
    fields = entry.fields(18, ("when", "is"), "a case")
    patterns: tuple[Pattern, ...] | None = None
    if "when" not in fields:
        missing(entry, "when", 18)
    elif readable:
        patterns = _read_when(fields["when"], components)
    body = shape(fields["is"], 18) if "is" in fields else missing(entry, "is", 18)
    return FamilyCase(patterns, body, entry.location)


def _read_when(entry: Entry, components: int | None) -> tuple[Pattern, ...] | None:
    if components is None:
        items = [entry]
    elif isinstance(entry.value, list) and len(entry.value) == components:
        items = entry.items(18)
    else:
        found = f"{len(entry.value)}" if isinstance(entry.value, list) else show(entry.value)
        entry.error(18, f"expected a list of {components} patterns, got {found}")
        return None
    patterns = tuple(_read_pattern(entry, item.node) for item in items)
    return None if None in patterns else tuple(p for p in patterns if p is not None)


def _read_pattern(entry: Entry, node: Node) -> Pattern | None:
    value = node.value
    if value is None:
        return AbsentPattern()
    if value == "_":
        return Wildcard()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, dict) and len(value) == 1:
        constructor, fields = next(iter(value.items()))
        if isinstance(constructor, str):
            return _read_adt_pattern(entry, constructor, fields)
    entry.error(
        18,
        "a pattern is true, false, an enum literal, {constructor: _}, "
        f"{{constructor: {{field: value}}}}, null or _, got {show(value)}",
    )
    return None


def _read_adt_pattern(entry: Entry, constructor: str, node: Node) -> AdtPattern | None:
    if node.value == "_":
        return AdtPattern(constructor)
    if not isinstance(node.value, dict):
        entry.error(18, f"a constructor's pattern is _ or a mapping, got {show(node.value)}")
        return None
    fields: list[tuple[str, bool | str]] = []
    for name, item in node.value.items():
        if not isinstance(item.value, bool | str):
            entry.error(18, f"field {name!r} is matched by a literal, got {show(item.value)}")
            return None
        if item.value != "_":
            fields.append((str(name), item.value))
    return AdtPattern(constructor, tuple(fields))
