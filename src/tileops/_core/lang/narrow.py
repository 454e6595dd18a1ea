"""Narrowing: what a condition tells about the kinds of the names it tests.

The subject of a test is a name or `name.value`; for the latter the payload is narrowed. Whether a
payload may be read at all is judged per branch, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileops._core.lang.kinds import (
    NONE,
    BoolKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    StrKind,
    UnknownKind,
    ValueKind,
    alternatives,
    union,
)
from tileops._core.lang.nodes import (
    Attribute,
    Compare,
    Constant,
    Expr,
    Logical,
    Not,
    Present,
)
from tileops._core.lang.nodes import Sequence as TupleNode
from tileops._core.lang.reads import read_name

Kinds = Mapping[str, Kind]
"""Names whose kind differs from the declared one."""

Lookup = Callable[[str], Kind | None]


def narrow(condition: Expr, holds: bool, known: Kinds, lookup: Lookup) -> Kinds:
    """The kinds of names where `condition` is `holds`, given those `known` so far.

    Args:
        condition: the test.
        holds: its outcome.
        known: names already narrowed.
        lookup: the declared kind of any other name, None when it has none.
    """
    if isinstance(condition, Not):
        return narrow(condition.operand, not holds, known, lookup)
    if isinstance(condition, Logical) and (condition.op == "and") == holds:
        for operand in condition.operands:
            known = narrow(operand, holds, known, lookup)
        return known
    if isinstance(condition, Present):
        kind = known.get(condition.name) or lookup(condition.name)
        is_absent = isinstance(kind, MaybeKind) and not holds
        return {**known, condition.name: NONE} if is_absent else known
    if isinstance(condition, Compare) and len(condition.ops) == 1:
        return _narrow_by_literals(condition, holds, known, lookup)
    return known


def _narrow_by_literals(test: Compare, holds: bool, known: Kinds, lookup: Lookup) -> Kinds:
    op, left, right = test.ops[0], test.first, test.rest[0]
    if op in ("==", "!=") and isinstance(left, Constant):
        left, right = right, left
    name, literals = read_name(left), _literals(op, right)
    kind = None if name is None else known.get(name) or lookup(name)
    if name is None or kind is None or literals is None:
        return known
    keep = _equal if holds == (op in ("==", "in")) else _unequal
    if not isinstance(left, Attribute):
        return {**known, name: keep(kind, literals)}
    if isinstance(kind, MaybeKind):
        return {**known, name: MaybeKind(keep(kind.inner, literals))}
    return known


def _literals(op: str, expr: Expr) -> Sequence[object] | None:
    """The literals compared with, if all of them are literals."""
    if op in ("==", "!="):
        return [expr.value] if isinstance(expr, Constant) else None
    if op not in ("in", "not in"):
        return None
    if isinstance(expr, Constant) and isinstance(expr.value, tuple):
        return expr.value
    if isinstance(expr, TupleNode) and all(isinstance(item, Constant) for item in expr.items):
        return [item.value for item in expr.items if isinstance(item, Constant)]
    return None


def _equal(kind: Kind, literals: Sequence[object]) -> Kind:
    """The part of `kind` that may equal one of the literals."""
    return union(
        part
        for literal in literals
        for member in alternatives(kind)
        if (part := _meeting(member, literal)) is not None
    )


def _meeting(kind: Kind, literal: object) -> Kind | None:
    if isinstance(kind, ValueKind | UnknownKind):
        return kind
    if isinstance(literal, bool):
        return kind if isinstance(kind, BoolKind) else None
    if isinstance(literal, int | float):
        return kind if isinstance(kind, IntKind | DimKind) else None
    if not isinstance(literal, str):
        return kind
    if isinstance(kind, StrKind):
        return kind
    if isinstance(kind, EnumKind):
        return EnumKind(frozenset({literal})) if literal in kind.literals else None
    if isinstance(kind, DTypeKind):
        return DTypeKind(frozenset({literal})) if literal in kind.members else None
    return None


def _unequal(kind: Kind, literals: Sequence[object]) -> Kind:
    """The part of `kind` that may differ from all the literals."""
    return union(
        rest for member in alternatives(kind) if (rest := _without(member, literals)) is not None
    )


def _without(kind: Kind, literals: Sequence[object]) -> Kind | None:
    if isinstance(kind, EnumKind):
        left = kind.literals.difference(literals)
        return EnumKind(left) if left else None
    if isinstance(kind, DTypeKind):
        left = kind.members.difference(literals)
        return DTypeKind(left) if left else None
    return kind
