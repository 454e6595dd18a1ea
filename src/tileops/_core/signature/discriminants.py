"""The discriminants of a spec: the finite quantities that select a branch, and their values.

Which of them participate, and which branches they make, is the business of `branches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from tileops._core.lang.kinds import AdtKind, BoolKind, EnumKind, Kind, MaybeKind, payload
from tileops._core.signature.plan import Discriminant, Value
from tileops._core.spec.model import Adt, OpSpec, Param, TensorInput

Point = Mapping[str, Value]
"""A value for some discriminants."""

GIVEN = "given"
OUT = "out"


def payload_kind(param: Param) -> Kind | None:
    """The kind of a parameter's value where it is given."""
    return payload(param.type.node.kind) if param.type.node else None


def is_maybe(param: object) -> bool:
    """Whether a declaration is a parameter that may be absent."""
    return (
        isinstance(param, Param)
        and param.type.node is not None
        and isinstance(param.type.node.kind, MaybeKind)
    )


def _finite_values(kind: Kind | None, adts: Mapping[str, Adt]) -> tuple[Value, ...]:
    """The values of a kind that has finitely many, else nothing."""
    if isinstance(kind, BoolKind):
        return (False, True)
    if isinstance(kind, EnumKind):
        return tuple(sorted(kind.literals))
    if isinstance(kind, AdtKind) and kind.name in adts:
        return tuple(_adt_values(adts[kind.name]))
    return ()


def _adt_values(adt: Adt) -> Iterator[Value]:
    for constructor in adt.constructors.values():
        finite = {
            field.name: _finite_values(field.kind, {})
            for field in constructor.fields.values()
            if isinstance(field.kind, BoolKind | EnumKind)
        }
        for combination in product(*finite.values()):
            yield (constructor.name, tuple(zip(finite, combination, strict=True)))


def discriminants(spec: OpSpec) -> dict[str, Discriminant]:
    """Every discriminant of a spec by name, whether anything reads it or not."""
    signature = spec.signature
    found: list[Discriminant] = []
    for name, param in signature.params.items():
        if isinstance(param, TensorInput):
            if param.optional is True:
                found.append(Discriminant(name, "held", (False, True), True))
            continue
        values = _finite_values(payload_kind(param), spec.adts)
        if is_maybe(param):
            values = (None, *(values or (GIVEN,)))
        if values:
            found.append(Discriminant(name, "param", values, True))
    for name, tensor in signature.inputs.items():
        if tensor.optional is True:
            found.append(Discriminant(name, "passed", (False, True), False))
    if signature.has_buffer:
        found.append(Discriminant(OUT, "out", (False, True), False))
    return {d.name: d for d in found}
