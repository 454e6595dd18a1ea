"""Checks of what every expression means where it stands: names, kinds, calls, dtypes, patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from tileops._core.lang.dtype_terms import infer_dtype
from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kinds import (
    BOOL,
    INT,
    INTS,
    UNKNOWN,
    Kind,
    MaybeKind,
    is_finite,
    is_number,
    is_opaque,
)
from tileops._core.lang.nodes import (
    Constant,
    Expr,
    FamilyApplication,
    Name,
    Shape,
    ShapeList,
    Splice,
)
from tileops._core.lang.printer import to_text
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.family_checks import pattern_fault
from tileops._core.signature.findings import Complaint
from tileops._core.signature.sites import Role, Site
from tileops._core.spec.model import Declaration, TypeFamily


_ANY = MaybeKind(UNKNOWN)
"""Wanted where a name may stand bare although it may be absent."""


def kind_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 13 to 18 of every declaration, and 29 on the branches of those that pass."""
    for site in analysis.sites:
        found = list(_site_complaints(analysis, site))
        yield from found
        if not found and site.role not in {Role.SUBJECT, Role.CASE, Role.DTYPE}:
            yield from _on_branches(analysis, site)
    for family in analysis.facts.signature.types.values():
        yield from _pattern_complaints(analysis, family)


def _site_complaints(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    if site.node is None:
        return
    if site.role is Role.DTYPE:
        try:
            infer_dtype(cast("Expr", site.node), analysis.scope.position(site))
        except KindFault as fault:
            yield Complaint(site.path, fault.check, fault.message)
    elif isinstance(site.node, ShapeList):
        yield from _part_complaints(analysis, site, site.node.axes)
    elif isinstance(site.node, FamilyApplication):
        yield from _argument_complaints(analysis, site, site.node)
    else:
        yield from _judged(analysis, site, site.node)


def _judged(
    analysis: Analysis, site: Site, expr: Expr, wanted: Kind | None = None
) -> Iterator[Complaint]:
    """The fault of one expression, if it has one."""
    if site.role in {Role.CONDITION, Role.RULE}:
        wanted = BOOL
    elif site.role is Role.SUBJECT:
        wanted = _ANY
    try:
        kind = infer(expr, analysis.scope.position(site), wanted)
    except KindFault as fault:
        yield Complaint(site.path, fault.check, fault.message)
        return
    if site.role is Role.CONDITION and not analysis.branches.decided(expr):
        yield from _undecided(analysis, site, expr)
    elif site.role is Role.FORMULA and not is_number(kind):
        yield Complaint(site.path, 15, f"{to_text(expr)} is {kind} where a number is needed")
    elif site.role is Role.LET and is_opaque(kind):
        yield Complaint(site.path, 15, f"{to_text(expr)} is {kind}, which takes no part in types")
    elif site.role is Role.SUBJECT and not is_finite(kind):
        yield Complaint(site.path, 18, f"{to_text(expr)} is {kind}, which is not finite")


def _undecided(analysis: Analysis, site: Site, expr: Expr) -> Iterator[Complaint]:
    """A condition that reads a field with infinitely many values, of itself or through a let."""
    inlined = analysis.branches.inline(expr)
    if inlined == expr:
        message = f"{to_text(expr)} reads more than discriminants"
        yield Complaint(site.path, 14, message)


def _part_complaints(
    analysis: Analysis, site: Site, parts: tuple[Expr | Splice, ...]
) -> Iterator[Complaint]:
    for part in parts:
        if isinstance(part, Splice):
            yield from _judged(analysis, site, part.value, INTS)
        else:
            yield from _judged(analysis, site, part, INT)


def _argument_complaints(
    analysis: Analysis, site: Site, application: FamilyApplication
) -> Iterator[Complaint]:
    family = analysis.facts.signature.types.get(application.family)
    kinds = list(family.formals.values()) if family is not None else []
    for place, argument in enumerate(application.args):
        wanted = kinds[place] if place < len(kinds) else None
        yield from _judged(analysis, site, argument, wanted or _ANY)


# Branches


def _on_branches(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """What goes wrong only under what a branch fixes."""
    if site.node is None or isinstance(site.owner, TypeFamily):
        return
    facts = analysis.facts
    owner = site.owner.name if site.owner else None
    reads = {*facts.reads(site.node), *(facts.presence_reads(owner) if owner else ())}

    def faults(point: Point) -> Iterator[str]:
        if owner is None or facts.present(owner, point):
            yield from _folded_faults(analysis, site, point)

    for fault in analysis.branches.judge(reads, faults):
        yield Complaint(site.path, 29, fault)


def _folded_faults(analysis: Analysis, site: Site, point: Point) -> Iterator[str]:
    if site.role is Role.SHAPE:
        parts = analysis.families.parts(cast("Declaration[Shape]", site.declaration), point)
        for part in parts or ():
            value = part.value if isinstance(part, Splice) else part
            if isinstance(value, Constant) and isinstance(value.value, int) and value.value < 0:
                yield f"the axis is {value.value}, which is negative"
            elif not isinstance(value, Name):
                wanted = INTS if isinstance(part, Splice) else INT
                yield from _kind_fault(analysis, site, value, wanted)
    else:
        folded = analysis.facts.fold(cast("Expr", site.node), point)
        if folded != site.node:
            yield from _kind_fault(analysis, site, folded, None)


def _kind_fault(
    analysis: Analysis, site: Site, expr: Expr, wanted: Kind | None
) -> Iterator[str]:
    try:
        infer(expr, analysis.scope.position(site), wanted)
    except KindFault as fault:
        yield fault.message


# Patterns


def _pattern_complaints(analysis: Analysis, family: TypeFamily) -> Iterator[Complaint]:
    """Patterns that the kind of their subject never has."""
    kinds = [_subject_kind(analysis, family, subject) for subject in family.subjects]
    for place, case in enumerate(family.cases):
        for pattern, kind in zip(case.when or (), kinds, strict=False):
            fault = pattern_fault(pattern, kind, analysis)
            if fault is not None:
                path = f"signature.types.{family.name}.cases[{place}].when"
                yield Complaint(path, 18, fault)


def _subject_kind(
    analysis: Analysis, family: TypeFamily, subject: Declaration[Expr]
) -> Kind:
    """The kind of a subject, unknown where it has none that may be matched."""
    if subject.node is None:
        return UNKNOWN
    position = analysis.scope.position(Site(Role.SUBJECT, subject, family))
    try:
        kind = infer(subject.node, position, _ANY)
    except KindFault:
        return UNKNOWN
    return kind if is_finite(kind) else UNKNOWN
