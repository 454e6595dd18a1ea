"""Small random values of each kind, from which calls are drawn."""

from __future__ import annotations

from random import Random
from typing import Any

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.kinds import (
    BoolKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    SeqKind,
    StrKind,
    UnionKind,
)
from tileops._core.lang.members import ObjectMember
from tileops._core.lang.values import AdtView
from tileops._core.spec.model import OpSpec, Param
from tileops._core.workload.arguments import constructor_of
from tileops._core.workload.values import FieldScope


def small_shape(rng: Random, base: list[int], *, empty: bool) -> tuple[int, ...]:
    """Trailing axes of `base`, some of them 1, so that two such shapes broadcast."""
    rank = rng.randint(1 if empty else 0, len(base))
    shape = [1 if rng.random() < 0.25 else n for n in base[len(base) - rank :]]
    if empty:
        shape[rng.randrange(rank)] = 0
    return tuple(shape)


def small_value(kind: Kind, rng: Random) -> Any:
    """A small value of a kind; dtypes by name."""
    if isinstance(kind, MaybeKind):
        return None if rng.random() < 0.3 else small_value(kind.inner, rng)
    if isinstance(kind, UnionKind):
        return small_value(rng.choice(kind.alternatives), rng)
    if isinstance(kind, BoolKind):
        return rng.random() < 0.5
    if isinstance(kind, EnumKind):
        return rng.choice(sorted(kind.literals))
    if isinstance(kind, DTypeKind):
        return rng.choice(sorted(kind.members))
    if isinstance(kind, DimKind):
        return rng.choice((0, 1, 1, 2, 3, 4, 8))
    if isinstance(kind, IntKind):
        return rng.choice((-2, -1, 0, 1, 2, 3, 4, 8))
    if isinstance(kind, SeqKind):
        length = rng.randint(0, 3) if kind.length is None else kind.length
        return [small_value(kind.element, rng) for _ in range(length)]
    if isinstance(kind, StrKind):
        return "cpu"
    return rng.choice((0.5, 1.0, 2.0))


def takes_an_object(param: Param) -> bool:
    """Whether a parameter takes objects of a class, which cannot be drawn: its default is used."""
    members = param.type.node.members if param.type.node else ()
    return any(isinstance(member, ObjectMember) for member in members)


def algebraic(spec: OpSpec, param: Param, fixed: tuple[Any, ...], rng: Random) -> AdtView:
    """A value of an algebraic type, of the constructor and the finite fields that are fixed."""
    name, finite = fixed
    given = dict(finite)
    fields: dict[str, Any] = {}
    for field in constructor_of(spec, param, AdtView(name, given)).fields.values():
        assert field.kind is not None
        fields[field.name] = given.get(field.name, small_value(field.kind, rng))
    return AdtView(name, fields)


def keeps_invariant(spec: OpSpec, name: str, value: AdtView) -> bool:
    """Whether the invariant of a parameter's value holds."""
    param = spec.signature.params[name]
    assert isinstance(param, Param)
    invariant = constructor_of(spec, param, value).invariant
    if invariant is None or invariant.node is None:
        return True
    return bool(evaluate(invariant.node, FieldScope(value)))
