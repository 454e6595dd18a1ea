"""Checks of type families: their patterns, their references, and the cases that branches take."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.kinds import AdtKind, BoolKind, EnumKind, Kind, MaybeKind, UnknownKind
from tileops._core.lang.nodes import FamilyApplication, Shape
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.cycles import cycles
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.plan import Value
from tileops._core.signature.sites import Role
from tileops._core.spec.model import (
    AbsentPattern,
    AdtPattern,
    Declaration,
    Pattern,
    TypeFamily,
    Wildcard,
)


def family_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 19 and 26 of every family, and the form of applications."""
    yield from _application_complaints(analysis)
    yield from _reference_complaints(analysis)
    yield from _coverage_complaints(analysis)


def pattern_fault(pattern: Pattern, kind: Kind, analysis: Analysis) -> str | None:
    """Why a pattern cannot match subjects of a kind."""
    if isinstance(kind, UnknownKind) or isinstance(pattern, Wildcard):
        return None
    if isinstance(pattern, AbsentPattern):
        return None if isinstance(kind, MaybeKind) else f"null, but the subject is a {kind}"
    inner = kind.inner if isinstance(kind, MaybeKind) else kind
    if isinstance(pattern, AdtPattern):
        return _adt_pattern_fault(pattern, inner, analysis)
    if isinstance(pattern, bool):
        fits = isinstance(inner, BoolKind)
    else:
        fits = isinstance(inner, EnumKind) and pattern in inner.literals
    return None if fits else f"{_shown(pattern)} is not a value of the subject, a {kind}"


def _adt_pattern_fault(pattern: AdtPattern, kind: Kind, analysis: Analysis) -> str | None:
    if not isinstance(kind, AdtKind):
        return f"{_shown(pattern)} is not a value of the subject, a {kind}"
    adt = analysis.spec.adts.get(kind.name)
    if adt is None:
        return None
    constructor = adt.constructors.get(pattern.constructor)
    if constructor is None:
        known = ", ".join(adt.constructors)
        return f"{kind} has no constructor {pattern.constructor!r}; it has {known}"
    for name, value in pattern.fields:
        field = constructor.fields.get(name)
        if field is None:
            return f"constructor {pattern.constructor!r} has no field {name!r}"
        if field.kind is None:
            continue
        if not isinstance(field.kind, BoolKind | EnumKind):
            return f"field {name!r} is a {field.kind}, which has no finite set of values"
        if pattern_fault(value, field.kind, analysis):
            return f"field {name!r} is never {_shown(value)}"
    return None


def _shown(value: Pattern | Value) -> str:
    """A pattern, or a subject's value, as YAML writes it."""
    if isinstance(value, Wildcard):
        return "_"
    if value is None or isinstance(value, AbsentPattern):
        return "null"
    if isinstance(value, AdtPattern):
        value = (value.constructor, value.fields)
    if isinstance(value, tuple):
        constructor, fields = value
        inner = ", ".join(f"{n}: {_shown(v)}" for n, v in fields)  # type: ignore[union-attr]
        return f"{{{constructor}: {{{inner}}}}}" if inner else f"{{{constructor}: _}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _applications(analysis: Analysis) -> Iterator[tuple[Declaration[Shape], FamilyApplication]]:
    """Every application as written, with the declaration it stands in."""
    for site in analysis.sites:
        if isinstance(site.node, FamilyApplication):
            yield site.declaration, site.node  # type: ignore[misc]


def _application_complaints(analysis: Analysis) -> Iterator[Complaint]:
    families = analysis.facts.signature.types
    for declaration, application in _applications(analysis):
        family = families.get(application.family)
        if family is None:
            if "signature.types" not in analysis.spec.unknown:
                message = f"{application.family} is no type family"
                yield Complaint(declaration.path, 14, message)
        elif len(family.formals) != len(application.args):
            wanted, given = len(family.formals), len(application.args)
            message = f"{family.name} takes {wanted} arguments, got {given}"
            yield Complaint(declaration.path, 18, message)


def _reference_complaints(analysis: Analysis) -> Iterator[Complaint]:
    families = analysis.facts.signature.types
    references = {
        name: [
            case.shape.node.family
            for case in family.cases
            if isinstance(case.shape.node, FamilyApplication)
        ]
        for name, family in families.items()
    }
    for cycle in cycles(references):
        path = f"signature.types.{cycle[0]}"
        yield Complaint(path, 19, f"families refer to each other in a cycle: {', '.join(cycle)}")
    reached = {
        site.node.family
        for site in analysis.sites
        if site.role is Role.SHAPE and isinstance(site.node, FamilyApplication)
    }
    pending = list(reached)
    while pending:
        for name in references.get(pending.pop(), ()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    if any(site.role is Role.SHAPE and site.node is None for site in analysis.sites):
        return
    for name in families:
        if name not in reached:
            yield Complaint(f"signature.types.{name}", 19, "no shape applies this family")


def _coverage_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Exactly one case of every applied family matches, on every accepted branch."""
    found: dict[Complaint, None] = {}
    for site in analysis.sites:
        if site.role is not Role.SHAPE or not isinstance(site.node, FamilyApplication):
            continue
        declaration: Declaration[Shape] = site.declaration  # type: ignore[assignment]
        presence = analysis.facts.presence_reads(site.owner.name) if site.owner else ()
        for fault in analysis.branches.judge(
            (*analysis.facts.reads(site.node), *presence),
            lambda point, d=declaration, s=site: _case_faults(analysis, d, s.owner.name, point),
            accepted_only=True,
        ):
            path, _, message = fault.partition(": ")
            found[Complaint(path, 26, message)] = None
    yield from found


def _case_faults(
    analysis: Analysis, declaration: Declaration[Shape], owner: str, point: Point
) -> Iterator[str]:
    """The faults met while a shape is expanded at a point, each after its field path."""
    if declaration.node is None or not analysis.facts.present(owner, point):
        return
    for application, choice in analysis.families.chain(declaration.node, point):
        family = analysis.facts.signature.types.get(application.family)
        if family is None or not _readable(family):
            return
        path = f"signature.types.{family.name}.cases"
        if choice.subjects is None:
            if analysis.families.subjects(application) is not None:
                yield (
                    f"{declaration.path}: discriminants do not decide which case of "
                    f"{family.name} applies"
                )
        elif len(choice.cases) != 1:
            subjects = [_shown(value) for value in choice.subjects]
            matched = subjects[0] if len(subjects) == 1 else f"[{', '.join(subjects)}]"
            if choice.cases:
                listed = " and ".join(map(str, choice.cases))
                yield f"{path}: cases {listed} overlap, both match {matched}"
            else:
                yield f"{path}: no case for {matched}"


def _readable(family: TypeFamily) -> bool:
    return all(subject.node is not None for subject in family.subjects) and all(
        case.when is not None for case in family.cases
    )
