"""The frozen model of a spec: what was written, where, and the tree it parses to.

A declaration whose text could not be read has `node` None (or the field itself is None) and a
finding in `OpSpec.faults`; consumers skip what depends on it. The model decides nothing: solving
order, branches and effects belong to `signature`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tileops._core.lang.declared import dataclass
from tileops._core.lang.kinds import DTypeKind, Kind
from tileops._core.lang.nodes import Expr, Shape
from tileops._core.lang.param_types import ParamType
from tileops._core.lang.values import printable

N = TypeVar("N")

_WORD = re.compile(r"\w+")

MOST_CHARACTERS = 1000
"""Characters of a finding's message."""


class Finding(NamedTuple):
    """One fault or remark; `message` starts with the check's number, `[V27]`."""

    op: str
    field: str
    level: Literal["error", "advisory"]
    message: str

    @classmethod
    def of(
        cls,
        op: str,
        field: str,
        check: int,
        message: str,
        level: Literal["error", "advisory"] = "error",
    ) -> Finding:
        """What a check has against a field, in one line; what quotes a long text is cut."""
        line = printable(message)
        shown = f"{line[: MOST_CHARACTERS - 1]}…" if len(line) > MOST_CHARACTERS else line
        return cls(op, field, level, f"[V{check}] {shown}")

    @property
    def subject(self) -> str:
        """The op and the field, as a line shows them; names may hold any character."""
        return printable(f"{self.op} {self.field}".rstrip())


@dataclass(frozen=True)
class Location:
    """A place in a file, or in a mapping given by running code (`line` 0)."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Declaration(Generic[N]):
    """One declared text: its field path, the text verbatim, its tree and its place."""

    path: str
    text: str
    node: N | None
    location: Location


@dataclass(frozen=True)
class Index:
    """A `forall` entry; `kind` is None when unreadable, `is_sequence` marks `Seq[Int]`."""

    name: str
    kind: Kind | None
    declaration: Declaration[Kind]
    is_sequence: bool = False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that it admits, as they are written, which its kind does not tell."""
        if not isinstance(self.kind, DTypeKind):
            return ()
        _, *names = _WORD.findall(self.declaration.text)
        return tuple(names)


@dataclass(frozen=True)
class Param:
    """An ordinary constructor parameter."""

    name: str
    type: Declaration[ParamType]
    has_default: bool
    default: Any
    kw_only: bool
    location: Location


@dataclass(frozen=True)
class TensorInput:
    """A call-time tensor (`role` "input") or a construction-time tensor (`role` "param").

    `optional` and `mutated` are literal booleans or conditions. `kw_only` is for role "param".
    """

    name: str
    role: Literal["input", "param"]
    dtype: Declaration[Expr]
    shape: Declaration[Shape]
    optional: bool | Declaration[Expr]
    mutated: bool | Declaration[Expr]
    write_only: bool
    contiguous: bool
    on_cpu: bool
    values: Declaration[Expr] | None
    requires: tuple[Declaration[Expr], ...]
    kw_only: bool
    location: Location


@dataclass(frozen=True)
class TensorOutput:
    """A result; `nullable` is its presence condition, `alias` an input name."""

    name: str
    dtype: Declaration[Expr]
    shape: Declaration[Shape]
    contiguous: bool
    nullable: Declaration[Expr] | None
    buffered: bool
    alias: str | None
    location: Location


@dataclass(frozen=True)
class AdtPattern:
    """`{ctor: _}` or `{ctor: {field: value, …}}`."""

    constructor: str
    fields: tuple[tuple[str, bool | str], ...] = ()


@dataclass(frozen=True)
class Wildcard:
    """`_`: anything, absence included."""


@dataclass(frozen=True)
class AbsentPattern:
    """`null`: an absent `Maybe`."""


Pattern = bool | str | AdtPattern | Wildcard | AbsentPattern


@dataclass(frozen=True)
class FamilyCase:
    """One case: a pattern per subject, and the shape it stands for."""

    when: tuple[Pattern, ...] | None
    shape: Declaration[Shape]
    location: Location


@dataclass(frozen=True)
class TypeFamily:
    """A shape chosen by pattern matching on finite subjects."""

    name: str
    formals: Mapping[str, Kind | None]
    subjects: tuple[Declaration[Expr], ...]
    cases: tuple[FamilyCase, ...]
    location: Location


@dataclass(frozen=True)
class DtypeCombo:
    """One admitted combination: name to dtype name."""

    dtypes: Mapping[str, str]
    location: Location


@dataclass(frozen=True)
class Signature:
    """The polymorphic typed signature of an op, in declaration order."""

    forall: Mapping[str, Index]
    params: Mapping[str, Param | TensorInput]
    inputs: Mapping[str, TensorInput]
    outputs: Mapping[str, TensorOutput]
    types: Mapping[str, TypeFamily]
    lets: Mapping[str, Declaration[Expr]]
    shape_rules: tuple[Declaration[Expr], ...]
    dtype_combos: tuple[DtypeCombo, ...]

    @property
    def held(self) -> tuple[TensorInput, ...]:
        """The construction-time tensors."""
        return tuple(param for param in self.params.values() if isinstance(param, TensorInput))

    @property
    def has_buffer(self) -> bool:
        """Whether a call may pass `out`."""
        return any(output.buffered for output in self.outputs.values())


@dataclass(frozen=True)
class Row:
    """One workload row as read; keys are judged by the workload checks."""

    values: Mapping[str, Any]
    some: tuple[str, ...]
    dtype_cases: tuple[Mapping[str, str], ...]
    label: str | None
    path: str
    location: Location


@dataclass(frozen=True)
class Roofline:
    """Inline formulas, or the dotted path of a function."""

    flops: Declaration[Expr] | None
    bytes: Declaration[Expr] | None
    func: str | None
    location: Location


@dataclass(frozen=True)
class Stage:
    """A sub-op (`op`) or an own kernel (`kernel`) of a composite."""

    name: str
    op: str | None
    kernel: str | None
    optional: bool
    location: Location


@dataclass(frozen=True)
class Backward:
    """The op that computes gradients, and how its inputs and outputs map to this op's.

    An input takes a tensor of this op, or `grad(NAME)` of one of its outputs.
    """

    op: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    location: Location

    def outputs_by_gradient(self) -> dict[str, str]:
        """The outputs whose gradients the op takes, under the inputs that take them."""
        return {
            name: source[len("grad(") : -1]
            for name, source in self.inputs.items()
            if source.startswith("grad(")
        }


@dataclass(frozen=True)
class AdtField:
    """A constructor's field; `python` names an enum class read through `.value`."""

    name: str
    kind: Kind | None
    python: str | None


@dataclass(frozen=True)
class Constructor:
    """One constructor of an ADT."""

    name: str
    python: str
    fields: Mapping[str, AdtField]
    invariant: Declaration[Expr] | None


@dataclass(frozen=True)
class Adt:
    """A closed sum of constructors."""

    name: str
    constructors: Mapping[str, Constructor]
    location: Location


def adt_fields(adts: Mapping[str, Adt]) -> dict[str, dict[str, dict[str, Kind]]]:
    """The field kinds of each constructor of each ADT."""
    return {
        name: {
            ctor.name: {item.name: item.kind for item in ctor.fields.values() if item.kind}
            for ctor in adt.constructors.values()
        }
        for name, adt in adts.items()
    }


@dataclass(frozen=True)
class AdtTable:
    """Every ADT that specs may name.

    `faults` holds the findings of those that could not be read, `places` where each finding
    belongs; a parameter of such a type has unknown kind.
    """

    known: Mapping[str, Adt] = field(default_factory=dict)
    faults: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    places: Mapping[Finding, Location] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Names that are declared, readable or not."""
        return frozenset(self.known) | frozenset(self.faults)

    def joined(self, other: AdtTable) -> AdtTable:
        """Both tables; their names are distinct."""
        return AdtTable(
            {**self.known, **other.known},
            {**self.faults, **other.faults},
            {**self.places, **other.places},
        )


@dataclass(frozen=True)
class OpSpec:
    """One spec as read.

    `origin` tells where it came from; `package` is the package that may be named by it, None when
    a mapping from running code may name any. `home` is the package whose `ops` and `reference`
    modules hold its class and oracle, None when only a defined class tells. `locations` maps every
    field path to its place. `unknown` holds the field paths (prefixes) that could not be read;
    `faults` says why.
    """

    name: str
    origin: str
    package: str | None
    in_tree: bool
    folder_family: str | None
    family: str | None
    status: Literal["implemented", "spec-only"] | None
    ref_api: str | None
    signature: Signature
    workloads: tuple[Row | None, ...]
    roofline: Roofline | None
    composition: tuple[Stage, ...] | None
    backward: Backward | None
    adts: Mapping[str, Adt]
    location: Location
    locations: Mapping[str, Location] = field(repr=False)
    unknown: frozenset[str] = frozenset()
    faults: tuple[Finding, ...] = ()
    home: str | None = None

    def is_for(self, module: str) -> bool:
        """Whether a class of this name in a module is the op's, not one that shares its name."""
        return self.home is None or _package(module) == _package(self.home)

    @property
    def has_boundary(self) -> bool:
        """Whether the class gets a compile boundary: a call-time tensor and no composition."""
        return bool(self.signature.inputs) and self.composition is None


def _package(module: str) -> str:
    """The outermost package of a module."""
    return module.partition(".")[0]
