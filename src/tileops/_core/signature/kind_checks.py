"""Checks of what every expression means where it stands: names, kinds, calls, dtypes, patterns."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.dtype_terms import infer_dtype
from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kinds import (
    BOOL,
    INT,
    INTS,
    AdtKind,
    Kind,
    is_number,
    is_opaque,
    payload,
)
from tileops._core.lang.literals import literal_fault
from tileops._core.lang.nodes import (
    Constant,
    Expr,
    FamilyApplication,
    ShapeList,
    Splice,
)
from tileops._core.lang.printer import to_text
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.lets import names_values
from tileops._core.signature.scope import ANY
from tileops._core.signature.sites import Role, Site
from tileops._core.signature.unify import value_of


def kind_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 13 to 18 of every declaration, and 29 on the branches of those that pass."""
    for site in analysis.sites:
        found = list(_site_complaints(analysis, site))
        yield from found
        if not found and site.role not in {Role.SUBJECT, Role.CASE, Role.DTYPE}:
            yield from _on_branches(analysis, site)


def _site_complaints(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    if isinstance(site.node, ShapeList):
        for part in site.node.axes:
            is_run = isinstance(part, Splice)
            expr = value_of(part)
            yield from _judged(analysis, site, expr, INTS if is_run else INT)
    elif isinstance(site.node, FamilyApplication):
        yield from _argument_complaints(analysis, site, site.node)
    elif site.node is not None and site.role is Role.DTYPE:
        try:
            infer_dtype(site.node, analysis.scope.position(site))
        except KindFault as fault:
            yield Complaint(site.path, fault.check, fault.message)
    elif site.node is not None:
        yield from _judged(analysis, site, site.node)


def _judged(
    analysis: Analysis, site: Site, expr: Expr, wanted: Kind | None = None
) -> Iterator[Complaint]:
    """The fault of one expression, if it has one."""
    if site.role in {Role.CONDITION, Role.RULE}:
        wanted = BOOL
    elif site.role is Role.SUBJECT:
        wanted = ANY
    try:
        kind = infer(expr, analysis.scope.position(site), wanted)
    except KindFault as fault:
        if fault.check != 23:  # the reader judges what formulas measure
            yield Complaint(site.path, fault.check, fault.message)
        return
    failing = literal_fault(expr)
    if failing is not None:
        yield Complaint(site.path, failing.check, failing.message)
    elif site.role is Role.CONDITION and not analysis.branches.decided(expr):
        yield from _undecided(analysis, site, expr)
    elif site.role is Role.FORMULA and not is_number(kind):
        yield Complaint(site.path, 15, f"{to_text(expr)} is {kind} where a number is needed")
    elif site.role is Role.LET and is_opaque(kind):
        yield Complaint(site.path, 15, f"{to_text(expr)} is {kind}, which takes no part in types")
    elif site.role is Role.LET and isinstance(payload(kind), AdtKind) and not names_values(expr):
        message = f"{to_text(expr)} is {kind}; a let of it names one or chooses between them"
        yield Complaint(site.path, 15, message)


def _undecided(analysis: Analysis, site: Site, expr: Expr) -> Iterator[Complaint]:
    """A condition that reads a field with infinitely many values, of itself or through a let."""
    if not analysis.facts.references.below(expr) and not analysis.scope.misses(expr):
        message = f"reads more than discriminants: {to_text(expr)}"
        yield Complaint(site.path, 14, message)


def _argument_complaints(
    analysis: Analysis, site: Site, application: FamilyApplication
) -> Iterator[Complaint]:
    family = analysis.facts.signature.types.get(application.family)
    kinds = list(family.formals.values()) if family is not None else []
    for place, argument in enumerate(application.args):
        wanted = kinds[place] if place < len(kinds) else None
        yield from _judged(analysis, site, argument, wanted or ANY)


# Branches


def _on_branches(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """What goes wrong only under what a branch fixes."""

    def complaints(point: Point) -> Iterator[Complaint]:
        if not analysis.evaluates(site, point):
            return
        if site.shape is not None:
            for part in analysis.families.parts(site.shape, point) or ():
                yield from _part_on_branch(analysis, site, part)
        elif site.expr is not None:
            folded = analysis.facts.fold(site.expr, point)
            if folded != site.expr:
                yield from _folded(analysis, site, folded, None)

    yield from analysis.branches.judge(analysis.reads(site), complaints)


def _part_on_branch(analysis: Analysis, site: Site, part: Expr | Splice) -> Iterator[Complaint]:
    if isinstance(part, Splice):
        yield from _folded(analysis, site, part.value, INTS)
        return
    if isinstance(part, Constant) and isinstance(part.value, int) and part.value < 0:
        yield Complaint(site.path, 29, f"the axis is {part.value}, which is negative")
    yield from _folded(analysis, site, part, INT)


def _folded(analysis: Analysis, site: Site, expr: Expr, wanted: Kind | None) -> Iterator[Complaint]:
    """The fault of a folded expression, unless folding made it.

    Two constants that are never equal, and a None that is left of a conditional, are no faults.
    """
    try:
        infer(expr, analysis.scope.position(site), wanted)
        fault = literal_fault(expr)
    except KindFault as found:
        fault = found
    if fault is not None and fault.check in {16, 29}:
        yield Complaint(site.path, 29, fault.message)
