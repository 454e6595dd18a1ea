"""Sets of branches, and the compact condition that tells one set from the rest.

A `Space` numbers the branches that can reach a step; a set of them is an integer with one bit per
branch, so that sharing a step between branches and comparing sets cost almost nothing. A guard
is read off a set as few, wide clauses. Branches outside the space cannot occur where the guard is
evaluated, so clauses may cover them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from tileops._core.signature.plan import Discriminant, Guard, Value

ALWAYS = Guard(({},))
NEVER = Guard(())


class Space:
    """A numbered list of branches over some discriminants.

    Args:
        discriminants: what tells branches apart, in declaration order.
        points: the branches, each from a discriminant's name to its value.
    """

    def __init__(
        self, discriminants: Sequence[Discriminant], points: Sequence[Mapping[str, Value]]
    ) -> None:
        self.discriminants = tuple(discriminants)
        self.points = tuple(points)
        self.everything = (1 << len(points)) - 1
        self._extents: dict[str, dict[Value, int]] = {
            d.name: dict.fromkeys(d.values, 0) for d in discriminants
        }
        for bit, point in enumerate(points):
            for name, extents in self._extents.items():
                extents[point[name]] |= 1 << bit

    def extent(self, clause: Mapping[str, Set[Value]]) -> int:
        """The branches that a clause admits."""
        branches = self.everything
        for name, values in clause.items():
            extents = self._extents[name]
            admitted = 0
            for value in values:
                admitted |= extents[value]
            branches &= admitted
        return branches

    def guard(self, branches: int, near: Set[str] = frozenset()) -> Guard:
        """The condition that holds on exactly these branches of the space.

        Args:
            branches: the set.
            near: discriminants by which the condition is best expressed when several would do.
        """
        if branches == self.everything:
            return ALWAYS
        clauses: list[dict[str, frozenset[Value]]] = []
        remaining = branches
        while remaining:
            first = (remaining & -remaining).bit_length() - 1
            clause = self._widen(self.points[first], branches, near)
            clauses.append(clause)
            remaining &= ~self.extent(clause)
        return Guard(tuple(self._needed(clauses)))

    def _widen(
        self, point: Mapping[str, Value], branches: int, near: Set[str]
    ) -> dict[str, frozenset[Value]]:
        """A clause around one branch, as wide as the set allows."""
        clause = {d.name: frozenset({point[d.name]}) for d in self.discriminants}
        for d in sorted(self.discriminants, key=lambda d: d.name in near):
            own = clause.pop(d.name)
            if self.extent(clause) & ~branches:
                clause[d.name] = own
        for d in self.discriminants:
            if d.name in clause:
                clause[d.name] = self._admit(clause, d, branches)
        return {d.name: clause[d.name] for d in self.discriminants if d.name in clause}

    def _admit(
        self, clause: Mapping[str, frozenset[Value]], d: Discriminant, branches: int
    ) -> frozenset[Value]:
        """The values of one discriminant that keep a clause inside the set.

        A value that no branch of the space has is admitted only to complete a constructor.
        """
        extents = self._extents[d.name]
        around = self.extent({name: values for name, values in clause.items() if name != d.name})
        refused = {v for v in d.values if extents[v] & around & ~branches}
        values = frozenset(v for v in d.values if extents[v] and v not in refused)
        complete = {_group(v) for v in values} - {_group(v) for v in refused}
        return values | {v for v in d.values if _group(v) in complete}

    def _needed(
        self, clauses: list[dict[str, frozenset[Value]]]
    ) -> Iterator[dict[str, frozenset[Value]]]:
        """The clauses without those that the others cover."""
        kept = list(clauses)
        for clause in clauses:
            others = [c for c in kept if c is not clause]
            covered = 0
            for other in others:
                covered |= self.extent(other)
            if self.extent(clause) & ~covered:
                continue
            kept = others
        yield from kept

    def witness(self, branches: int) -> str:
        """One example of the set as text that ends a finding, empty when the set is everything.

        For instance ` when flip=true, present(bias)=false`.
        """
        facts: list[str] = []
        for d in self.discriminants:
            values = self.guard(branches).clauses[0].get(d.name)
            if values is not None:
                facts.append(_example(d, values))
        return f" when {', '.join(facts)}" if facts else ""


def _example(discriminant: Discriminant, values: Set[Value]) -> str:
    """One of some values; of an algebraic type the constructor where all its values are meant."""
    value = next(value for value in discriminant.values if value in values)
    alike = {other for other in discriminant.values if _group(other) == _group(value)}
    if isinstance(value, tuple) and alike <= values:
        value = (value[0], ())
    return describe(discriminant, value)


def _group(value: Value) -> object:
    """What a value is shown by: the constructor of an algebraic type, else itself."""
    return value[0] if isinstance(value, tuple) else value


def describe(discriminant: Discriminant, value: Value) -> str:
    """One value of a discriminant as it stands in a finding."""
    name = discriminant.name
    if discriminant.source != "param" or value is None or value == "given":
        return f"present({name})={_scalar(value not in {None, False})}"
    if isinstance(value, tuple):
        constructor, fields = adt_value(value)
        parts = [f"{name}.kind={constructor}"]
        parts += [f"{name}.{field}={_scalar(item)}" for field, item in fields]
        return ", ".join(parts)
    return f"{name}={_scalar(value)}"


def adt_value(value: tuple[Any, ...]) -> tuple[str, tuple[tuple[str, bool | str], ...]]:
    """An ADT's constructor and its finite fields, taken from a discriminant's value."""
    constructor, fields = value
    return constructor, fields


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
