"""Type families: which case a branch takes, and the axes that an application stands for.

An application is expanded by putting its arguments in place of the formals of the one case that
matches, until a plain list of axes is left. Arguments are substituted as trees, so an expanded
axis reads declared names only. Form, coverage and cycles are judged by `check`; here a case that
cannot be chosen makes the shape unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple, cast

from tileops._core.lang.kinds import DIM, SHAPE
from tileops._core.lang.nodes import (
    Attribute,
    Conditional,
    Constant,
    Each,
    Expr,
    FamilyApplication,
    Name,
    Present,
    Sequence,
    Shape,
    ShapeList,
    Splice,
)
from tileops._core.lang.walk import deepest, rebuild, walk
from tileops._core.signature.discriminants import Point
from tileops._core.signature.facts import Facts
from tileops._core.signature.lets import NOTHING, may_be_absent, of_arms
from tileops._core.signature.patterns import matches
from tileops._core.signature.plan import Value
from tileops._core.signature.references import Reference
from tileops._core.signature.unify import Part
from tileops._core.spec.model import Declaration, FamilyCase, TypeFamily

MAX_NODES = 5000
MAX_LEVELS = 150
"""The size of an expanded shape, in nodes and in levels."""


class Choice(NamedTuple):
    """The subjects of an application at a point, and the places of the cases they match.

    `subjects` is None where the point leaves one of them open.
    """

    subjects: tuple[Value, ...] | None
    cases: tuple[int, ...]


class Families:
    """Expansion of shapes at a point.

    Args:
        facts: what the spec's expressions are worth.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.families = facts.signature.types
        self.oversized: set[str] = set()
        self._parts: dict[tuple[int, tuple[Value, ...]], tuple[Part, ...] | None] = {}
        self._bodies: dict[tuple[int, int], tuple[FamilyApplication, Shape]] = {}
        self._subjects: dict[int, tuple[FamilyApplication, tuple[Expr, ...] | None]] = {}

    def parts(self, shape: Declaration[Shape], point: Point) -> tuple[Part, ...] | None:
        """The folded axes of a declared shape, None where it is unknown."""
        if shape.node is None:
            return None
        key = (id(shape.node), self.facts.projection(shape.node, point))
        if key not in self._parts:
            self._parts[key] = self._expand(shape.node, point)
        return self._parts[key]

    def _expand(self, shape: Shape, point: Point) -> tuple[Part, ...] | None:
        for application, choice in self.chain(shape, point):
            if not choice.cases:
                return None
            inner = self.body(application, choice.cases[0])
            if inner is None:
                return None
            shape = inner
        if isinstance(shape, FamilyApplication):
            return None
        return tuple(part for axis in shape.axes for part in self._fold(axis, point))

    def chain(self, shape: Shape, point: Point) -> Iterator[tuple[FamilyApplication, Choice]]:
        """The applications that the expansion of a shape meets, outermost first."""
        entered: set[str] = set()
        while isinstance(shape, FamilyApplication) and shape.family not in entered:
            entered.add(shape.family)
            choice = self.choose(shape, point)
            yield shape, choice
            inner = self.body(shape, choice.cases[0]) if choice.cases else None
            if inner is None:
                return
            shape = inner

    def sized_arguments(self, shape: Declaration[Shape], point: Point) -> tuple[Part, ...]:
        """The folded arguments that stand for a `Dim` or a `Shape` in the cases taken."""
        found: list[Part] = []
        for application, _ in self.chain(shape.node, point) if shape.node is not None else ():
            family = self.families.get(application.family)
            for name, expr in (self._arguments(application, family) or {}).items():
                kind = family.formals[name] if family is not None else None
                if kind == DIM:
                    found.append(self.facts.fold(expr, point))
                elif kind == SHAPE:
                    found.append(Splice(self.facts.fold(expr, point)))
        return tuple(found)

    def choose(self, application: FamilyApplication, point: Point) -> Choice:
        """Which cases an application's subjects match."""
        family = self.families.get(application.family)
        subjects = self.subjects(application)
        if family is None or subjects is None:
            return Choice(None, ())
        values: list[Value] = []
        for subject in subjects:
            value = self.facts.subject(subject, point)
            if value is None:
                return Choice(None, ())
            values.extend(value)
        found = (
            place for place, case in enumerate(family.cases)
            if case.when is not None and len(case.when) == len(values)
            and all(map(matches, case.when, values))
        )  # fmt: skip
        return Choice(tuple(values), tuple(found))

    def readable(self, name: str) -> bool:
        """Whether a family's subjects and patterns could all be read."""
        family = self.families[name]
        return all(s.node is not None for s in family.subjects) and all(
            case.when is not None for case in family.cases
        )

    def subjects(self, application: FamilyApplication) -> tuple[Expr, ...] | None:
        """What an application matches on, over declared names."""
        kept = self._subjects.get(id(application))
        if kept is None:
            kept = (application, self._bind_subjects(application))
            self._subjects[id(application)] = kept
        return kept[1]

    def _bind_subjects(self, application: FamilyApplication) -> tuple[Expr, ...] | None:
        family = self.families.get(application.family)
        arguments = self._arguments(application, family)
        if family is None or arguments is None:
            return None
        bound = [
            self.substitute(subject.node, arguments)
            for subject in family.subjects
            if subject.node is not None
        ]
        return tuple(bound) if len(bound) == len(family.subjects) else None

    def body(self, application: FamilyApplication, place: int) -> Shape | None:
        """A case's shape with the arguments in place; one object per application and case."""
        key = (id(application), place)
        if key not in self._bodies:
            family = self.families[application.family]
            case: FamilyCase = family.cases[place]
            arguments = self._arguments(application, family)
            if case.shape.node is None or arguments is None:
                return None
            body = self._bind_shape(case.shape.node, arguments)
            if any(islice(walk(body), MAX_NODES, None)) or deepest(body, MAX_LEVELS):
                self.oversized.add(application.family)
                return None
            self._bodies[key] = (application, body)
        return self._bodies[key][1]

    def _arguments(
        self, application: FamilyApplication, family: TypeFamily | None
    ) -> dict[str, Expr] | None:
        if family is None or len(family.formals) != len(application.args):
            return None
        return dict(zip(family.formals, application.args, strict=True))

    def _bind_shape(self, shape: Shape, arguments: Mapping[str, Expr]) -> Shape:
        if isinstance(shape, FamilyApplication):
            bound = tuple(self.substitute(arg, arguments) for arg in shape.args)
            return FamilyApplication(shape.family, bound)
        return ShapeList(
            tuple(
                Splice(self.substitute(axis.value, arguments))
                if isinstance(axis, Splice)
                else self.substitute(axis, arguments)
                for axis in shape.axes
            )
        )

    def substitute(self, expr: Expr, arguments: Mapping[str, Expr]) -> Expr:
        """`expr` with arguments in place of formals."""
        if isinstance(expr, Name):
            return arguments.get(expr.id, expr)
        if isinstance(expr, Present) and expr.name in arguments:
            return self._presence(arguments[expr.name])
        payload = isinstance(expr, Attribute) and expr.attr == "value" and expr.base
        if isinstance(payload, Name) and payload.id in arguments:
            argument = arguments[payload.id]
            return Attribute(argument, "value") if self._is_maybe(argument) else argument
        if isinstance(expr, Each):
            arguments = {n: a for n, a in arguments.items() if n != expr.variable}
        return of_arms(rebuild(expr, lambda child: self.substitute(child, arguments)))

    def _presence(self, argument: Expr) -> Expr:
        """Whether an argument is there, lets looked through."""
        if isinstance(argument, Conditional):
            then, orelse = self._presence(argument.then), self._presence(argument.orelse)
            return Conditional(argument.test, then, orelse)
        if isinstance(argument, Name):
            let = self.facts.references.definitions.get(Reference("value", argument.id))
            if let is not None and argument.id not in self.facts.cyclic_lets:
                return self._presence(let)
            if self._is_maybe(argument):
                return Present(argument.id)
        return Constant(argument != NOTHING)

    def _is_maybe(self, argument: Expr) -> bool:
        return isinstance(argument, Name) and may_be_absent(argument.id, self.facts.signature)

    def _fold(self, axis: Expr | Splice, point: Point) -> tuple[Part, ...]:
        """One axis after folding; a run that folds to a tuple becomes single axes."""
        if not isinstance(axis, Splice):
            return (self.facts.fold(axis, point),)
        value = self.facts.fold(axis.value, point)
        if isinstance(value, Constant) and isinstance(value.value, tuple):
            return tuple(self.facts.share(_constant(item)) for item in value.value)
        if isinstance(value, Sequence):
            return tuple(self.facts.share(item) for item in value.items)
        return (Splice(value),)


def _constant(item: object) -> Constant:
    return Constant(cast("int", item))
