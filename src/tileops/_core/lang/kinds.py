"""Kinds: what an expression may stand for, and how kinds relate.

`fits` is the subkind relation (with `Int` and `Dim` fitting each other, which leaves a run-time
obligation of non-negativity), `join` the least common kind of two arms, `overlap` whether two
kinds share a value. `UNKNOWN` stands for a kind that could not be read and passes every test;
`NEVER`, the empty union, is the kind of an expression that no value reaches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, Union

from tileops._core.lang.declared import dataclass
from tileops._core.lang.dtypes import BITS


@dataclass(frozen=True)
class IntKind:
    """An integer."""

    def __str__(self) -> str:
        return "Int"


@dataclass(frozen=True)
class DimKind:
    """An integer of at least 0."""

    def __str__(self) -> str:
        return "Dim"


@dataclass(frozen=True)
class BoolKind:
    """A truth value; no other kind is one."""

    def __str__(self) -> str:
        return "Bool"


@dataclass(frozen=True)
class StrKind:
    """Any string."""

    def __str__(self) -> str:
        return "Str"


@dataclass(frozen=True)
class ValueKind:
    """Any Python value; takes no part in types."""

    def __str__(self) -> str:
        return "Value"


@dataclass(frozen=True)
class NoneKind:
    """Only `None`."""

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True)
class UnknownKind:
    """The kind of something that could not be read."""

    def __str__(self) -> str:
        return "?"


@dataclass(frozen=True)
class EnumKind:
    """One of finitely many strings."""

    literals: frozenset[str]

    def __str__(self) -> str:
        return " | ".join(repr(literal) for literal in sorted(self.literals))


@dataclass(frozen=True)
class DTypeKind:
    """One of a set of dtypes; any registered one when `names` is None."""

    names: frozenset[str] | None = None

    def __str__(self) -> str:
        return "DType" if self.names is None else f"DType[{' | '.join(sorted(self.names))}]"

    @property
    def members(self) -> frozenset[str]:
        """The dtype names themselves."""
        return frozenset(BITS) if self.names is None else self.names


@dataclass(frozen=True)
class SeqKind:
    """A sequence of one element kind; of any length when `length` is None."""

    element: Kind
    length: int | None = None

    def __str__(self) -> str:
        if self.element == DimKind() and self.length is None:
            return "Shape"
        of = "" if self.length is None else f" of {self.length}"
        return f"Seq[{self.element}]{of}"


@dataclass(frozen=True)
class MaybeKind:
    """A value that may be absent; its payload has kind `inner`."""

    inner: Kind

    def __str__(self) -> str:
        return f"Maybe[{self.inner}]"


@dataclass(frozen=True)
class AdtKind:
    """A value of a named algebraic type."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class UnionKind:
    """Any of several kinds; made by `union`."""

    alternatives: tuple[Kind, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.alternatives)) or "nothing"


Kind: TypeAlias = Union[
    IntKind, DimKind, BoolKind, StrKind, ValueKind, NoneKind, UnknownKind, EnumKind, DTypeKind,
    SeqKind, MaybeKind, AdtKind, UnionKind,
]  # fmt: skip

INT, DIM, BOOL, STR, VALUE = IntKind(), DimKind(), BoolKind(), StrKind(), ValueKind()
NONE, UNKNOWN, DTYPE = NoneKind(), UnknownKind(), DTypeKind()
SHAPE, INTS = SeqKind(DIM), SeqKind(INT)
NEVER = UnionKind(())


def alternatives(kind: Kind) -> tuple[Kind, ...]:
    """The members of a union; any other kind alone."""
    return kind.alternatives if isinstance(kind, UnionKind) else (kind,)


def payload(kind: Kind) -> Kind:
    """What a `Maybe` holds where it is given; any other kind itself."""
    return kind.inner if isinstance(kind, MaybeKind) else kind


def union(kinds: Iterable[Kind]) -> Kind:
    """The kind of a value that has one of `kinds`: flat, enums and dtype sets merged."""
    merged: list[Kind] = []
    for kind in (member for each in kinds for member in alternatives(each)):
        for position, other in enumerate(merged):
            both = _merge(other, kind)
            if both is not None:
                merged[position] = both
                break
        else:
            merged.append(kind)
    return merged[0] if len(merged) == 1 else UnionKind(tuple(merged))


def _merge(a: Kind, b: Kind) -> Kind | None:
    """One kind for both where that loses nothing."""
    if a == b:
        return a
    if isinstance(a, EnumKind) and isinstance(b, EnumKind):
        return EnumKind(a.literals | b.literals)
    if isinstance(a, DTypeKind) and isinstance(b, DTypeKind):
        return DTYPE if a.names is None or b.names is None else DTypeKind(a.names | b.names)
    return None


def is_integer(kind: Kind) -> bool:
    """Whether every value of `kind` is an integer (a truth value is not one)."""
    return all(isinstance(k, IntKind | DimKind | UnknownKind) for k in alternatives(kind))


def is_number(kind: Kind) -> bool:
    """Whether `kind` may be used as a number."""
    return all(
        isinstance(k, IntKind | DimKind | ValueKind | UnknownKind) for k in alternatives(kind)
    )


def is_finite(kind: Kind) -> bool:
    """Whether `kind` may be matched on: truth value, enum, algebraic type, or `Maybe` of one."""
    return isinstance(payload(kind), BoolKind | EnumKind | AdtKind | UnknownKind)


def is_opaque(kind: Kind) -> bool:
    """Whether `kind` holds values and strings only, and so takes no part in types."""
    members = alternatives(payload(kind))
    return bool(members) and all(isinstance(k, ValueKind | StrKind) for k in members)


def fits(kind: Kind, wanted: Kind) -> bool:
    """Whether a value of `kind` may stand where `wanted` is needed."""
    if isinstance(kind, UnknownKind) or isinstance(wanted, UnknownKind):
        return True
    if isinstance(kind, UnionKind):
        return all(fits(member, wanted) for member in kind.alternatives)
    if isinstance(wanted, UnionKind):
        return any(fits(kind, member) for member in wanted.alternatives)
    if isinstance(wanted, MaybeKind):
        return isinstance(kind, NoneKind) or fits(payload(kind), wanted.inner)
    if isinstance(kind, MaybeKind):
        return False
    return isinstance(wanted, ValueKind) or _fits_plain(kind, wanted)


def _fits_plain(kind: Kind, wanted: Kind) -> bool:
    """`fits` for two kinds that are neither unions nor `Maybe`."""
    if isinstance(kind, IntKind | DimKind):
        return isinstance(wanted, IntKind | DimKind)
    if isinstance(kind, EnumKind):
        return _fits_enum(kind.literals, wanted)
    if isinstance(kind, DTypeKind):
        return isinstance(wanted, DTypeKind) and kind.members <= wanted.members
    if isinstance(kind, SeqKind):
        return (
            isinstance(wanted, SeqKind)
            and wanted.length in (None, kind.length)
            and fits(kind.element, wanted.element)
        )
    return kind == wanted


def _fits_enum(literals: frozenset[str], wanted: Kind) -> bool:
    """A quoted dtype name is a dtype, and any literal is a string."""
    if isinstance(wanted, EnumKind):
        return literals <= wanted.literals
    if isinstance(wanted, DTypeKind):
        return literals <= wanted.members
    return isinstance(wanted, StrKind)


def join(a: Kind, b: Kind) -> Kind | None:
    """The kind of a conditional with arms of kinds `a` and `b`; None when they have none."""
    if a == b or b == NEVER:
        return a
    if a == NEVER:
        return b
    if isinstance(a, UnknownKind) or isinstance(b, UnknownKind):
        return UNKNOWN
    if isinstance(a, NoneKind | MaybeKind) or isinstance(b, NoneKind | MaybeKind):
        return _join_maybe(a, b)
    if isinstance(a, IntKind | DimKind) and isinstance(b, IntKind | DimKind):
        return INT
    if isinstance(a, SeqKind) and isinstance(b, SeqKind):
        element = join(a.element, b.element)
        length = a.length if a.length == b.length else None
        return None if element is None else SeqKind(element, length)
    if isinstance(a, EnumKind) and isinstance(b, DTypeKind) and _fits_enum(a.literals, DTYPE):
        return _merge(DTypeKind(a.literals), b)
    if isinstance(a, DTypeKind) and isinstance(b, EnumKind):
        return join(b, a)
    return _merge(a, b)


def _join_maybe(a: Kind, b: Kind) -> Kind | None:
    """The join of two kinds of which one may be absent."""
    payloads = [payload(kind) for kind in (a, b) if not isinstance(kind, NoneKind)]
    inner = payloads[0] if len(payloads) == 1 else join(*payloads)
    return None if inner is None else MaybeKind(inner)


def join_all(kinds: Iterable[Kind]) -> Kind | None:
    """The join of several kinds; `NEVER` for none at all."""
    result: Kind | None = NEVER
    for kind in kinds:
        if result is None:
            return None
        result = join(result, kind)
    return result


def overlap(a: Kind, b: Kind) -> bool:
    """Whether some value may have both kinds, so that comparing them makes sense."""
    if isinstance(a, UnknownKind | ValueKind) or isinstance(b, UnknownKind | ValueKind):
        return True
    if NEVER in (a, b):
        return True
    if isinstance(a, UnionKind) or isinstance(b, UnionKind):
        return any(overlap(m, n) for m in alternatives(a) for n in alternatives(b))
    if isinstance(a, EnumKind | DTypeKind | StrKind) and isinstance(
        b, EnumKind | DTypeKind | StrKind
    ):
        return isinstance(a, StrKind) or isinstance(b, StrKind) or bool(_texts(a) & _texts(b))
    if isinstance(a, SeqKind) and isinstance(b, SeqKind):
        lengths_agree = a.length is None or b.length is None or a.length == b.length
        return lengths_agree and overlap(a.element, b.element)
    return fits(a, b) or fits(b, a)


def _texts(kind: EnumKind | DTypeKind) -> frozenset[str]:
    return kind.literals if isinstance(kind, EnumKind) else kind.members
