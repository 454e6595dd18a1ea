"""Checks of type families: their patterns, their references, and the cases that branches take."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kinds import UNKNOWN, Kind, is_finite
from tileops._core.lang.nodes import Expr, FamilyApplication
from tileops._core.lang.printer import to_text
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.coverage import coverage_complaints
from tileops._core.signature.findings import Complaint
from tileops._core.signature.patterns import pattern_fault
from tileops._core.signature.references import cycles
from tileops._core.signature.scope import ANY
from tileops._core.signature.sites import Role, Site
from tileops._core.spec.model import Declaration, TypeFamily


def family_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 18, 19 and 26 of every family, and the form of applications."""
    yield from _application_complaints(analysis)
    yield from _reference_complaints(analysis)
    faulty = {name for name in analysis.facts.signature.types if _is_partial(analysis, name)}
    for family in analysis.facts.signature.types.values():
        found = [*_subject_complaints(analysis, family), *_pattern_complaints(analysis, family)]
        faulty |= {family.name} if found else set()
        yield from found
    yield from coverage_complaints(analysis, faulty)
    for name in sorted(analysis.families.oversized):
        yield Complaint(f"signature.types.{name}", 19, "its cases expand beyond all bounds")


def _subject_complaints(analysis: Analysis, family: TypeFamily) -> Iterator[Complaint]:
    """Subjects that have infinitely many values."""
    for subject in family.subjects:
        kind = _subject_kind(analysis, family, subject)
        if subject.node is not None and not is_finite(kind):
            message = f"{to_text(subject.node)} is {kind}, which is not finite"
            yield Complaint(subject.path, 18, message)


def _pattern_complaints(analysis: Analysis, family: TypeFamily) -> Iterator[Complaint]:
    """Patterns that the kind of their subject never has."""
    found = [_subject_kind(analysis, family, subject) for subject in family.subjects]
    kinds = [kind if is_finite(kind) else UNKNOWN for kind in found]
    for place, case in enumerate(family.cases):
        for pattern, kind in zip(case.when or (), kinds, strict=False):
            fault = pattern_fault(pattern, kind, analysis.spec.adts)
            if fault is not None:
                path = f"signature.types.{family.name}.cases[{place}].when"
                yield Complaint(path, 18, fault)


def _subject_kind(analysis: Analysis, family: TypeFamily, subject: Declaration[Expr]) -> Kind:
    """The kind of a subject, unknown where it has a fault of its own."""
    if subject.node is None:
        return UNKNOWN
    position = analysis.scope.position(Site(Role.SUBJECT, subject, family))
    try:
        return infer(subject.node, position, ANY)
    except KindFault:
        return UNKNOWN


def _application_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Applications of what is no family, or of a family with other formals."""
    families = analysis.facts.signature.types
    for site in analysis.sites:
        if not isinstance(site.node, FamilyApplication):
            continue
        family = families.get(site.node.family)
        wanted, given = len(family.formals) if family else 0, len(site.node.args)
        if family is None and not _may_be_unread(analysis):
            yield Complaint(site.path, 14, f"{site.node.family} is no type family")
        elif family is not None and wanted != given and not _is_partial(analysis, family.name):
            message = f"{family.name} takes {wanted} arguments, got {given}"
            yield Complaint(site.path, 18, message)


def _is_partial(analysis: Analysis, family: str) -> bool:
    """Whether something in a family could not be read."""
    path = f"signature.types.{family}"
    return any(f"{each}.".startswith(f"{path}.") for each in analysis.spec.unknown)


def _may_be_unread(analysis: Analysis) -> bool:
    return not analysis.spec.unknown.isdisjoint({"signature", "signature.types"})


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
        yield Complaint(path, 19, f"cycle {', '.join(cycle)}")
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
            yield Complaint(f"signature.types.{name}", 19, "unused: no shape applies it")
