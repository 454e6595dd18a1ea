"""Whether a signature leaves any choice: what no call could satisfy is a fault of the spec.

Judges what the discriminants decide, alone or through a refinement that folds to false; that sizes
contradict each other is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tileops._core.lang.nodes import Constant, Expr
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.facts import Facts
from tileops._core.signature.findings import Complaint
from tileops._core.spec.model import Declaration

Rules = Sequence[Declaration[Expr]]


def choice_complaints(analysis: Analysis, faulty: Set[str]) -> Iterator[Complaint]:
    """Check 29 of parameters and refinements; fields in `faulty` mean nothing by themselves."""
    yield from _impossible_values(analysis)
    branches = analysis.branches
    every = branches.points(branches.related)
    points = [point for point in every if not branches.breaks_invariant(point)]
    rules = [r for r in analysis.facts.signature.shape_rules if r.node and r.path not in faulty]
    if not any(_admit(analysis.facts, rules, point) for point in points):
        yield from _contradiction(analysis.facts, rules, points)


def _impossible_values(analysis: Analysis) -> Iterator[Complaint]:
    """Parameters of an algebraic type none of whose values keeps its invariant."""
    for d in analysis.facts.discriminants.values():
        if all(analysis.branches.breaks_invariant({d.name: value}) for value in d.values):
            message = "no value keeps the invariant of its constructor"
            yield Complaint(f"signature.params.{d.name}.type", 29, message)


def _contradiction(facts: Facts, rules: Rules, points: Sequence[Point]) -> Iterator[Complaint]:
    """The first refinement after which nothing is left, with those that refuse what it admits."""
    left = points
    for place, rule in enumerate(rules):
        if left and not any(_admit(facts, [rule], point) for point in left):
            admitted = [point for point in points if _admit(facts, [rule], point)]
            others = [
                other.path.removeprefix("signature.")
                for other in rules[:place]
                if not all(_admit(facts, [other], point) for point in admitted)
            ]
            with_others = f" together with {', '.join(others)}" if others else ""
            yield Complaint(rule.path, 29, f"no choice satisfies it{with_others}")
            return
        left = [point for point in left if _admit(facts, [rule], point)]


def _admit(facts: Facts, rules: Rules, point: Point) -> bool:
    """Whether no refinement folds to false at a point."""
    return all(rule.node and facts.fold(rule.node, point) != Constant(False) for rule in rules)
