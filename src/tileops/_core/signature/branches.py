"""The branches of a spec: all combinations of the discriminants that something reads.

A discriminant participates when an expression of the signature or of an inline formula reads it,
directly or through lets, family arguments and other presences; the presence of an optional tensor
and of `out` always does. Inputs on which nothing else depends make no branches of their own.
Domain restrictions and the invariants of algebraic types exclude branches; a domain restriction is
a refinement that the branch alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import cast

from tileops._core.lang.cached import cached_property
from tileops._core.lang.declared import dataclass
from tileops._core.lang.fold import fold
from tileops._core.lang.kinds import AdtKind, BoolKind, EnumKind
from tileops._core.lang.nodes import Attribute, Bytes, Conditional, Constant, Expr, Name, Present
from tileops._core.lang.reads import read_name
from tileops._core.lang.walk import children, rebuild, walk
from tileops._core.signature.conditions import from_guard, runs_on
from tileops._core.signature.discriminants import Point, payload_kind
from tileops._core.signature.facts import Facts
from tileops._core.signature.findings import Complaint, witnessed
from tileops._core.signature.guards import Space
from tileops._core.signature.independent import independent_inputs
from tileops._core.signature.lets import NOTHING, is_payload, of_arms, source
from tileops._core.signature.plan import Discriminant
from tileops._core.signature.references import Reference
from tileops._core.signature.sites import Role, sites
from tileops._core.spec.model import Declaration

MOST_BRANCHES = 1 << 14
"""Combinations beyond which a spec is refused: every one of them would be checked."""

_LONG = 200
"""Nodes of a condition beyond which its lets are not put in."""


@dataclass(frozen=True)
class Restriction:
    """A domain restriction, and its place among the refinements."""

    place: int
    declaration: Declaration[Expr]
    expr: Expr
    at_construction: bool


class Branches:
    """What participates, and which branches are accepted.

    Args:
        facts: what the spec's expressions are worth.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        names = self._participating_names()
        self.participating = tuple(d for d in facts.discriminants.values() if d.name in names)
        self.independent = independent_inputs(facts)
        self.related = tuple(d for d in self.participating if d.name not in self.independent)
        self.restrictions = () if self.are_too_many else tuple(self._restrictions())

    def _participating_names(self) -> set[str]:
        found = {d.name for d in self.facts.discriminants.values() if d.source != "param"}
        for site in sites(self.facts.spec):
            if site.node is not None and site.role not in {Role.SUBJECT, Role.CASE}:
                found.update(self.facts.reads(site.node))
        return found

    @property
    def count(self) -> int:
        """The number of combinations, excluded ones included."""
        return prod(len(d.values) for d in self.participating)

    @property
    def related_count(self) -> int:
        """The number of those that have to be told apart."""
        return prod(len(d.values) for d in self.related)

    @property
    def are_too_many(self) -> bool:
        """Whether the branches cannot be checked one by one."""
        return self.related_count > MOST_BRANCHES

    # Domain restrictions

    def _restrictions(self) -> Iterator[Restriction]:
        for place, rule in enumerate(self.facts.signature.shape_rules):
            if rule.node is None or not self.decided(rule.node):
                continue
            space = self.space(self.facts.reads(rule.node))
            if any(self.facts.fold(rule.node, point) != Constant(True) for point in space.points):
                early = all(d.at_construction for d in space.discriminants)
                yield Restriction(place, rule, rule.node, early)

    def decided(self, expr: Expr) -> bool:
        """Whether an expression reads discriminants and nothing else, lets put in."""
        references = self.facts.references
        below = [references.definitions[key] for key in references.below(expr)]
        return self._decided(expr) and all(self._decided(d) or self._names_one(d) for d in below)

    def _decided(self, expr: Expr) -> bool:
        if isinstance(expr, Name):
            kind = self._payload(expr.id)
            if expr.id in self.facts.signature.lets:
                is_read = Reference("value", expr.id) in self.facts.references.definitions
                return is_read and not isinstance(kind, AdtKind)
            return isinstance(kind, BoolKind | EnumKind)
        if isinstance(expr, Attribute):
            return self._decided_attribute(expr)
        return not isinstance(expr, Bytes) and all(
            self._decided(cast("Expr", child)) for child in children(expr)
        )

    def _names_one(self, definition: Expr) -> bool:
        """Whether the definition of a let names algebraic parameters, and a branch decides which.

        Other definitions are none of these, even where they name a parameter.
        """
        if isinstance(definition, Conditional):
            outcomes = (definition.then, definition.orelse)
            return self._decided(definition.test) and all(map(self._names_one, outcomes))
        name = read_name(definition)
        return definition == NOTHING or isinstance(name and self._payload(name), AdtKind)

    def _payload(self, name: str) -> object:
        param = source(name, self.facts.signature)
        return param and payload_kind(param)

    def _decided_attribute(self, expr: Attribute) -> bool:
        signature, owner = self.facts.signature, read_name(expr.base)
        if owner in signature.lets and is_payload(expr, signature):
            return self._decided(expr.base)
        kind = owner and self._payload(owner)
        if isinstance(kind, AdtKind):
            adt = self.facts.spec.adts.get(kind.name)
            fields = [c.fields.get(expr.attr) for c in adt.constructors.values()] if adt else []
            finite = [isinstance(f.kind, BoolKind | EnumKind) for f in fields if f is not None]
            return expr.attr == "kind" or (bool(finite) and all(finite))
        return expr.attr == "value" and isinstance(kind, BoolKind | EnumKind)

    # Conditions

    def inline(self, expr: Expr) -> Expr | None:
        """`expr` with definitions in place of lets and of presences; None when that gets long.

        A presence that a condition decides may be asked for before the tensor is there. Nor is
        there such a text where a part of it would read what an arm of a let has not.
        """
        definitions, signature = self.facts.references.definitions, self.facts.signature
        inlined: dict[Reference, Expr] = {}

        def put_in(tree: Expr) -> Expr:
            if isinstance(tree, Name):
                return inlined.get(Reference("value", tree.id), tree)
            if isinstance(tree, Present):
                return inlined.get(Reference("presence", tree.name), tree)
            if isinstance(tree, Attribute) and is_payload(tree, signature):
                return inlined.get(Reference("value", read_name(tree) or ""), tree)
            return of_arms(rebuild(tree, put_in))

        for key in self.facts.references.below(expr):
            inlined[key] = put_in(definitions[key])
            if any(islice(walk(inlined[key]), _LONG, None)):
                return None
        whole = put_in(expr)
        is_sound = all(getattr(node, "base", None) != NOTHING for node in walk(whole))
        return whole if is_sound else None

    def runnable(self, expr: Expr) -> Expr:
        """A decided condition in a form that every point may run."""
        inlined = self.inline(expr)
        space = self.space(self.facts.reads(expr))
        if inlined and all(runs_on(inlined, self.facts, point) for point in space.points):
            return inlined
        return self._where(space, lambda point: self.facts.fold(expr, point) == Constant(True))

    def possible(self, restriction: Restriction) -> Expr:
        """What construction alone must see to, so that some call can meet a restriction."""
        found = self.facts.discriminants.values()
        early = {d.name for d in found if d.at_construction}
        expr = restriction.expr
        space = self.space(early.intersection(self.facts.reads(expr)))
        return self._where(space, lambda point: self.facts.fold(expr, point) != Constant(False))

    def _where(self, space: Space, holds: Callable[[Point], bool]) -> Expr:
        """The condition that holds on some points of a space."""
        bits = sum(1 << bit for bit, point in enumerate(space.points) if holds(point))
        return from_guard(space.guard(bits), self.facts.discriminants)

    # Enumeration

    def points(self, over: Sequence[Discriminant]) -> Iterator[Point]:
        """All combinations of some discriminants, excluded ones included."""
        names = [d.name for d in over]
        for values in product(*(d.values for d in over)):
            yield dict(zip(names, values, strict=True))

    def space(self, reads: Iterable[str], accepted_only: bool = False) -> Space:
        """All combinations of some discriminants; with `accepted_only`, of accepted branches."""
        names = set(reads)
        over = [d for d in self.facts.discriminants.values() if d.name in names]
        points = self.points(over)
        return Space(over, [p for p in points if not accepted_only or self._reachable(p)])

    def _reachable(self, point: Point) -> bool:
        """Whether some accepted branch extends a point."""
        related = {d.name for d in self.related}
        clause = {n: frozenset({v}) for n, v in point.items() if n in related}
        return bool(self.accepted.extent(clause))

    def judge(
        self, reads: Iterable[str], complaints: Callable[[Point], Iterable[Complaint]]
    ) -> Iterator[Complaint]:
        """The complaints found on the combinations of some discriminants, with witnesses.

        Args:
            reads: the discriminants that the complaints depend on.
            complaints: what is wrong at a point.
        """
        space = self.space(reads)
        return witnessed(
            space,
            ((bit, c) for bit, point in enumerate(space.points) for c in complaints(point)),
        )

    def excluded(self, point: Point) -> bool:
        """Whether an invariant or a restriction that the point decides rules it out."""
        return self.breaks_invariant(point) or any(
            self.facts.fold(restriction.expr, point) == Constant(False)
            for restriction in self.restrictions
        )

    def breaks_invariant(self, point: Point) -> bool:
        """Whether an algebraic value of a point breaks what its constructor demands."""
        for name, value in point.items():
            kind = self._payload(name)
            if not isinstance(value, tuple) or not isinstance(kind, AdtKind):
                continue
            constructor, fields = value
            invariant = self.facts.spec.adts[kind.name].constructors[str(constructor)].invariant
            if invariant is not None and invariant.node is not None:
                known = dict(fields)  # type: ignore[call-overload]
                if fold(invariant.node, known, {}) == Constant(False):
                    return True
        return False

    @cached_property
    def accepted(self) -> Space:
        """The branches that a call can be on, with every independent input."""
        passed = dict.fromkeys(self.independent, True)
        points = (point for point in self.points(self.related) if not self.excluded(point))
        return Space(self.related, [{**point, **passed} for point in points])

    def calls(self) -> Iterator[Point]:
        """Every accepted branch with its independent inputs: all, none, one, all but one."""
        own = sorted(self.independent)
        alone = [{name} for name in own]
        sets = [set(own), set[str](), *alone, *(set(own) - one for one in alone)]
        for point, passed in product(self.accepted.points, dict.fromkeys(map(frozenset, sets))):
            whole = {**point, **{name: name in passed for name in own}}
            yield {d.name: whole[d.name] for d in self.participating}

    @cached_property
    def constructions(self) -> Space:
        """The construction points that a constructor accepts."""
        over = [d for d in self.participating if d.at_construction]
        return Space(over, [point for point in self.points(over) if not self.excluded(point)])

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """For each accepted branch the place of its construction point."""
        names = [d.name for d in self.constructions.discriminants]
        places = {
            tuple(point[name] for name in names): place
            for place, point in enumerate(self.constructions.points)
        }
        return tuple(places[tuple(point[name] for name in names)] for point in self.accepted.points)
