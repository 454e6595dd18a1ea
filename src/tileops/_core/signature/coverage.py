"""Whether exactly one case of every applied family matches, on every accepted branch.

The subjects that a family meets are gathered over all its applications. Those without a case are
reported together, as the patterns that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import reduce
from operator import or_
from typing import NamedTuple

from tileops._core.lang.nodes import FamilyApplication
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.findings import Complaint
from tileops._core.signature.guards import Space
from tileops._core.signature.patterns import shown
from tileops._core.signature.plan import Discriminant, Value
from tileops._core.signature.sites import Role, Site
from tileops._core.spec.model import TypeFamily

Subjects = tuple[Value, ...]


class _Met(NamedTuple):
    """Subjects that an application meets: on which points of which space."""

    cases: tuple[int, ...]
    space: Space
    where: int


def coverage_complaints(analysis: Analysis, faulty: Set[str]) -> Iterator[Complaint]:
    """Check 26; families in `faulty` have patterns that mean nothing and are left out."""
    met: dict[str, dict[Subjects, _Met]] = {}
    for site in analysis.sites:
        if site.role is Role.SHAPE and isinstance(site.node, FamilyApplication):
            yield from _gather(analysis, site, site.node, met, faulty)
    for name, subjects in met.items():
        yield from _judge(analysis.facts.signature.types[name], subjects)


def _gather(
    analysis: Analysis,
    site: Site,
    shape: FamilyApplication,
    met: dict[str, dict[Subjects, _Met]],
    faulty: Set[str],
) -> Iterator[Complaint]:
    """Add what the applications behind a shape meet; report subjects that stay open."""
    owner = site.tensor or ""
    names = {*analysis.facts.reads(shape), *analysis.facts.presence_reads(owner)}
    space = analysis.branches.space(names, accepted_only=True)
    undecided: dict[str, int] = {}
    for bit, point in enumerate(space.points):
        if not analysis.facts.present(owner, point):
            continue
        for application, choice in analysis.families.chain(shape, point):
            family = application.family
            if family in faulty or family not in analysis.facts.signature.types:
                break
            if choice.subjects is None:
                matched = analysis.families.subjects(application) or ()
                if not any(map(analysis.scope.misses, matched)):
                    undecided[family] = undecided.get(family, 0) | 1 << bit
                break
            subjects = met.setdefault(family, {})
            old = subjects.get(choice.subjects)
            if old is None or old.space is space:
                where = (old.where if old else 0) | 1 << bit
                subjects[choice.subjects] = _Met(choice.cases, space, where)
    for family, where in undecided.items():
        if analysis.families.readable(family):
            message = f"discriminants do not decide which case of {family} applies"
            yield Complaint(site.path, 26, message + space.witness(where))


def _judge(family: TypeFamily, subjects: dict[Subjects, _Met]) -> Iterator[Complaint]:
    path = f"signature.types.{family.name}.cases"
    if any(case.when is None for case in family.cases):
        return
    for values, met in subjects.items():
        if len(met.cases) > 1:
            listed = " and ".join(map(str, met.cases))
            message = f"cases {listed} overlap, both match {_listed(map(shown, values))}"
            yield Complaint(path, 26, message + met.space.witness(met.where))
    missing = [values for values, met in subjects.items() if not met.cases]
    for pattern, covered in _patterns(list(subjects), missing):
        space = subjects[covered[0]].space
        found = [subjects[values] for values in covered if subjects[values].space is space]
        where = reduce(or_, (met.where for met in found))
        yield Complaint(path, 26, f"no case for {pattern}{space.witness(where)}")


def _patterns(
    subjects: list[Subjects], missing: list[Subjects]
) -> Iterator[tuple[str, list[Subjects]]]:
    """The fewest patterns that match the missing subjects and no others, each with those."""
    width = len(subjects[0]) if subjects else 0
    columns = [
        Discriminant(str(i), "param", tuple(dict.fromkeys(s[i] for s in subjects)), True)
        for i in range(width)
    ]
    space = Space(columns, [{str(i): value for i, value in enumerate(s)} for s in subjects])
    wanted = sum(1 << subjects.index(values) for values in missing)
    for clause in space.guard(wanted).clauses if missing else ():
        texts = [
            _alternatives(column, clause[column.name]) if column.name in clause else "_"
            for column in columns
        ]
        covered = space.extent(clause)
        yield _listed(texts), [s for bit, s in enumerate(subjects) if covered >> bit & 1]


def _alternatives(column: Discriminant, values: Set[Value]) -> str:
    """The values of one subject; a constructor alone where all its values are meant."""
    texts: dict[str, None] = {}
    for value in column.values:
        if value not in values:
            continue
        if isinstance(value, tuple):
            alike = {v for v in column.values if isinstance(v, tuple) and v[0] == value[0]}
            texts[shown((value[0], ()) if alike <= values else value)] = None
        else:
            texts[shown(value)] = None
    return " or ".join(texts)


def _listed(texts: Iterable[str]) -> str:
    items = list(texts)
    return items[0] if len(items) == 1 else f"[{', '.join(items)}]"
