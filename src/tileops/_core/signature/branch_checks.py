"""Checks branch by branch: solvable indices, readable payloads, decided conditions."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Bytes,
    Constant,
    Expr,
    FamilyApplication,
    Name,
    Shape,
)
from tileops._core.lang.printer import to_text
from tileops._core.lang.reads import read_name, reads
from tileops._core.lang.walk import walk
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint, witnessed
from tileops._core.signature.guards import describe
from tileops._core.signature.lets import NOTHING, arms, is_payload
from tileops._core.signature.sites import Role, Site
from tileops._core.signature.unify import value_of
from tileops._core.signature.usage import Root, Usage
from tileops._core.spec.model import TensorInput


def branch_complaints(analysis: Analysis, faulty: Set[str]) -> Iterator[Complaint]:
    """Checks 27, 28, 30 and 31; fields in `faulty` mean nothing by themselves."""
    yield from _unsolved(analysis, faulty)
    yield from witnessed(analysis.branches.accepted, _combo_columns(analysis))
    for site in analysis.sites:
        yield from _payloads(analysis, site)
    yield from _conditions(analysis)


# Indices


def _unsolved(analysis: Analysis, faulty: Set[str]) -> Iterator[Complaint]:
    """Indices that branches use and no input gives, at the first field that reads them.

    A tensor that is passed is where an index could have been solved, so inputs are blamed before
    outputs and these before refinements. A branch with a faulty input or let is left out: what
    the field was meant to give is not known.
    """
    where: dict[tuple[str, str], int] = {}
    for bit, (usage, called) in enumerate(zip(analysis.usages, analysis.calls, strict=True)):
        unsolved = analysis.catalogue.indices - called.known
        if not unsolved or not usage.complete or not faulty.isdisjoint(_sources(usage)):
            continue
        for root in usage.roots:
            for name in _read_through_lets(analysis, root, usage, unsolved):
                unsolved -= {name}
                where[root.path, name] = where.get((root.path, name), 0) | 1 << bit
    alike: dict[tuple[str, int], list[str]] = {}
    for (path, name), branches in where.items():
        alike.setdefault((path, branches), []).append(name)
    for (path, branches), names in alike.items():
        subject = "index" if len(names) == 1 else "indices"
        witness = analysis.branches.accepted.witness(branches)
        message = f"{subject} {', '.join(names)} cannot be solved from the inputs{witness}"
        message += _way_out(analysis, names)
        yield Complaint(path, 27, message)


def _way_out(analysis: Analysis, names: list[str]) -> str:
    """What to write where an input's axis is a product or a quotient of an index; else nothing."""
    inputs = (site.node for site in analysis.sites if site.path.startswith("signature.inputs."))
    for part in (part for node in inputs if node is not None for part in walk(node)):
        if isinstance(part, Arithmetic) and part.op in {"*", "//"}:
            read = {each.id for each in walk(part) if isinstance(each, Name)}
            if not read.isdisjoint(names):
                return (
                    f"; an axis {to_text(part)} solves none of its names: make the axis an index "
                    "of its own, and compute the others from it"
                )
    return ""


def _sources(usage: Usage) -> Iterator[str]:
    """The fields that may give an index its value."""
    yield from (f"signature.let.{name}" for name in usage.lets)
    for root in usage.roots:
        if root.path.startswith(("signature.inputs.", "signature.params.")):
            yield root.path


def _read_through_lets(analysis: Analysis, root: Root, usage: Usage, wanted: Set[str]) -> list[str]:
    """Those of some indices that a root reads, directly or through lets, in order."""
    found: set[str] = set()
    pending = list(root.names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += analysis.catalogue.names(usage.lets[name]) if name in usage.lets else ()
    return [name for name in analysis.facts.signature.forall if name in found & wanted]


def _combo_columns(analysis: Analysis) -> Iterator[tuple[int, Complaint]]:
    """Dtype indices of combinations that an accepted branch does not use."""
    rows = analysis.facts.signature.dtype_combos
    columns = [name for name in rows[0].dtypes if name in analysis.catalogue.dtypes] if rows else ()
    for bit, usage in enumerate(analysis.usages):
        if columns and usage.complete:
            lets = (analysis.catalogue.names(expr) for expr in usage.lets.values())
            read = frozenset[str]().union(*(root.names for root in usage.roots), *lets)
            for name in columns:
                if name not in read:
                    message = f"column {name} is not used"
                    yield bit, Complaint("signature.dtype_combos", 30, message)


# Payloads and fields


def _payloads(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """Payloads and fields that are read where the value has none."""
    if site.node is None or site.role in {Role.SUBJECT, Role.CASE}:
        return
    if site.role is Role.LET:
        yield from _let_payloads(analysis, site)
        return

    def complaints(point: Point) -> Iterator[Complaint]:
        if analysis.evaluates(site, point):
            for path, expr in _evaluated(analysis, site, point):
                yield from _missing_payloads(analysis, path, expr, point)

    yield from analysis.branches.judge(analysis.reads(site), complaints)


def _evaluated(analysis: Analysis, site: Site, point: Point) -> Iterator[tuple[str, Expr]]:
    """The folded expressions that a site evaluates at a point, with the field of each."""
    if site.expr is not None:
        yield site.path, analysis.facts.fold(site.expr, point)
    elif site.shape is not None and site.shape.node is not None:
        for expr in _parts(site.shape.node):
            yield site.path, analysis.facts.fold(expr, point)
        for application, choice in analysis.families.chain(site.shape.node, point):
            for place in choice.cases[:1]:
                path = f"signature.types.{application.family}.cases[{place}].is"
                for expr in _parts(analysis.families.body(application, place)):
                    yield path, analysis.facts.fold(expr, point)


def _parts(shape: Shape | None) -> Iterator[Expr]:
    """The expressions written in a shape."""
    if isinstance(shape, FamilyApplication):
        yield from shape.args
    elif shape is not None:
        for axis in shape.axes:
            yield value_of(axis)


def _missing_payloads(
    analysis: Analysis, path: str, expr: Expr, point: Point
) -> Iterator[Complaint]:
    for read in walk(expr):
        if isinstance(read, Bytes) and analysis.facts.present(read.name, point) is False:
            yield Complaint(path, 28, f"{to_text(read)} is read")
        if isinstance(read, Attribute) and not analysis.facts.has_payload(read, point):
            outcomes = list(arms(analysis.facts.behind(read.base, point)))
            is_adt = any(isinstance(point.get(read_name(arm) or ""), tuple) for arm in outcomes)
            is_absent = NOTHING in outcomes or is_payload(read, analysis.facts.signature)
            is_field = is_adt and not is_absent
            what = "is a field of another constructor" if is_field else "is read"
            yield Complaint(path, 28, f"{to_text(read)} {what}")


def _let_payloads(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """A let is evaluated only where something uses it."""
    if site.expr is None or not any(isinstance(node, Attribute) for node in walk(site.expr)):
        return
    name = site.path.rpartition(".")[2]

    def complaints(point: Point) -> Iterator[Complaint]:
        folded = analysis.usage.at(point).lets.get(name)
        if folded is not None:
            yield from _missing_payloads(analysis, site.path, folded, point)

    yield from analysis.branches.judge([d.name for d in analysis.branches.related], complaints)


# Conditions


def _conditions(analysis: Analysis) -> Iterator[Complaint]:
    """Conditions that the discriminants do not decide, and presence that depends on itself."""
    cycles, lets = analysis.facts.references.cycles("presence"), analysis.facts.signature.lets
    first = {next((n for n in cycle if n not in lets), None): cycle for cycle in cycles}
    for site in analysis.sites:
        if site.role is not Role.CONDITION:
            continue
        if site.tensor in first and not site.path.endswith(".mutated"):
            cycle = ", ".join(first[site.tensor])
            yield Complaint(site.path, 31, f"depends on itself: {cycle}")
        elif site.expr is not None and not _is_unclear(analysis, site.expr):
            yield from _undecided(analysis, site, site.expr)


def _is_unclear(analysis: Analysis, condition: Expr) -> bool:
    """Whether a condition leads to what depends on itself, or to what could not be read."""
    if analysis.scope.misses(condition):
        return True
    found = reads(condition)
    names = {*found.names, *found.presences}
    return bool(names & (analysis.facts.cyclic_presences | analysis.facts.cyclic_lets))


def _undecided(analysis: Analysis, site: Site, condition: Expr) -> Iterator[Complaint]:
    """A condition that does not reduce to a constant, or not in time for a constructor."""
    names = analysis.facts.reads(condition)
    read = [analysis.facts.discriminants[name] for name in names]
    late = [describe(d, True) for d in read if not d.at_construction]
    if isinstance(site.owner, TensorInput) and site.owner.role == "param" and late:
        yield Complaint(site.path, 31, f"construction needs it, but it reads {', '.join(late)}")
        return

    def complaints(point: Point) -> Iterator[Complaint]:
        folded = analysis.facts.fold(condition, point)
        if not isinstance(folded, Constant):
            left = to_text(folded)
            yield Complaint(site.path, 31, f"does not reduce to a constant: {left} is left")

    yield from analysis.branches.judge(names, complaints)
