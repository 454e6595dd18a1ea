"""Algebraic types from an `adts` section."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tileops._core.lang.declared import dataclass
from tileops._core.lang.faults import KindFault, LanguageFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kind_text import parse_field_kind
from tileops._core.lang.kinds import BOOL, BoolKind, EnumKind, Kind
from tileops._core.lang.nodes import Expr
from tileops._core.lang.positions import Position
from tileops._core.spec.declarations import expression, missing
from tileops._core.spec.entries import Entry, Reading, section
from tileops._core.spec.model import (
    Adt,
    AdtField,
    AdtTable,
    Constructor,
    Declaration,
    Finding,
    Location,
)
from tileops._core.spec.names import BUILTIN_TYPES, is_dotted, name_fault
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import Node

MOST_COMBINATIONS = 1024
"""Values of the finite fields of one ADT; each is a branch of its own."""


def read_adts(nodes: Mapping[str, Node], source: Source) -> AdtTable:
    """Read the definitions of one source.

    Args:
        nodes: name to definition.
        source: where they stand; its label is the `op` of their findings.

    Returns:
        The types, and the findings of those that cannot be read.
    """
    known: dict[str, Adt] = {}
    faults: dict[str, tuple[Finding, ...]] = {}
    places: dict[Finding, Location] = {}
    for name, node in nodes.items():
        reading = Reading(source.label, source.label)
        reader = _AdtReader(reading, source)
        adt = reader.read(name, reading.entry(f"adts.{name}", node))
        if adt is None or reading.findings:
            faults[name] = tuple(reading.findings)
            places |= {found: reading.place_of(found.field) for found in reading.findings}
        else:
            known[name] = adt
    return AdtTable(known, faults, places)


@dataclass(frozen=True)
class _AdtReader:
    """Reads the definitions of one source."""

    reading: Reading
    source: Source

    def read(self, name: str, entry: Entry) -> Adt | None:
        """One definition."""
        fault = "is a built-in type" if name in BUILTIN_TYPES else name_fault(name)
        if fault:
            entry.error(12, fault)
        body = entry.fields(12, ("sum",), "an ADT")
        if "sum" not in body:
            if isinstance(entry.value, dict):
                entry.error(12, "expected exactly the key 'sum'")
            return None
        constructors = {}
        for ctor, item in body["sum"].mapping(12).items():
            path = f"{entry.path}.{ctor}"
            constructors[ctor] = self._constructor(ctor, self.reading.entry(path, item.node))
        if isinstance(body["sum"].value, dict) and not constructors:
            entry.error(12, "needs at least one constructor")
        count = sum(map(_finite_combinations, constructors.values()))
        if count > MOST_COMBINATIONS:
            entry.error(12, f"{count} combinations of finite fields, more than {MOST_COMBINATIONS}")
        return Adt(name, constructors, entry.location)

    def _constructor(self, name: str, entry: Entry) -> Constructor:
        fault = name_fault(name)
        if fault:
            entry.error(12, fault)
        body = entry.fields(12, ("python", "fields", "invariant"), "a constructor")
        python = self._python(entry, body.get("python"))
        fields: dict[str, AdtField] = {}
        declared = section(body, "fields")
        for key, item in declared.mapping(12).items() if declared else ():
            fields[key] = self._field(key, self.reading.entry(f"{entry.path}.{key}", item.node))
        invariant = section(body, "invariant")
        rule = _invariant(invariant, fields) if invariant else None
        return Constructor(name, python, fields, rule)

    def _python(self, owner: Entry, entry: Entry | None) -> str:
        """The dotted name of a class."""
        if entry is None:
            missing(owner, "python", 12)
            return ""
        if not is_dotted(entry.value, 2):
            entry.expected(12, "the dotted name of a class")
            return ""
        if not self.source.may_name(entry.value):
            entry.error(12, self.source.refuse(entry.value))
        return str(entry.value)

    def _field(self, name: str, entry: Entry) -> AdtField:
        fault = "is the name of the constructor" if name == "kind" else name_fault(name)
        if fault:
            entry.error(12, fault)
        python = None
        kind_entry: Entry | None = entry
        if isinstance(entry.value, dict):
            body = entry.fields(12, ("type", "python"), "a field")
            kind_entry = body.get("type")
            if "python" in body:
                python = self._python(entry, body["python"])
            if kind_entry is None:
                entry.error(12, "the field's 'type' is missing")
        kind = self._field_kind(entry, kind_entry) if kind_entry else None
        if python is not None and kind is not None and not isinstance(kind, EnumKind):
            entry.error(12, f"'python' names an enum class, but the field is {kind}")
        return AdtField(name, kind, python)

    @staticmethod
    def _field_kind(owner: Entry, entry: Entry) -> Kind | None:
        text = entry.text(12, "a kind")
        if text is None:
            return None
        try:
            return parse_field_kind(text)
        except LanguageFault as fault:
            owner.error(12, f"{fault.message}, got {text!r}")
            return None


def _invariant(entry: Entry, fields: Mapping[str, AdtField]) -> Declaration[Expr]:
    """An expression of kind Bool over the constructor's own fields."""
    declared = expression(entry, 12)
    if declared.node is not None and all(item.kind is not None for item in fields.values()):
        kinds = {name: item.kind for name, item in fields.items()}
        try:
            infer(declared.node, Position(names=kinds.get), BOOL)
        except KindFault as fault:
            entry.error(12, f"{fault.message}, in {declared.text!r}")
    return declared


def _finite_combinations(constructor: Constructor) -> int:
    """How many values the finite fields of a constructor have together."""
    kinds = [item.kind for item in constructor.fields.values()]
    literals = (len(kind.literals) for kind in kinds if isinstance(kind, EnumKind))
    return prod(literals) << sum(isinstance(kind, BoolKind) for kind in kinds)
