"""What a branch uses: the expressions that a call on it evaluates, and the names they read.

An index is used when a folded expression reads it in the shape or dtype of a present tensor or
output, in a refinement, in the definition of a used let, or in an inline roofline formula. What
only generators and predicates read is not used by a call.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import Constant, Expr, Name, Shape
from tileops._core.lang.walk import walk
from tileops._core.signature.actions import Catalogue
from tileops._core.signature.discriminants import Point
from tileops._core.signature.families import Families
from tileops._core.signature.plan import Value
from tileops._core.signature.unify import value_of
from tileops._core.spec.model import Declaration


@dataclass(frozen=True)
class Root:
    """One declaration that a branch uses: its field path, its tree, the names it reads folded."""

    path: str
    node: Expr | Shape
    names: frozenset[str]


@dataclass(frozen=True)
class Usage:
    """What one branch uses.

    Attributes:
        roots: the declarations, those of inputs first, then outputs, refinements, formulas.
        lets: the folded definitions of the lets behind them.
        complete: whether every shape, dtype and let involved could be read.
    """

    roots: tuple[Root, ...]
    lets: dict[str, Expr]
    complete: bool


class Usages:
    """Finds what each branch uses.

    Args:
        catalogue: what names stand for.
        families: expansion of shapes.
    """

    def __init__(self, catalogue: Catalogue, families: Families) -> None:
        self.catalogue = catalogue
        self.facts = catalogue.facts
        self.families = families
        self._kept: dict[tuple[tuple[str, Value], ...], Usage] = {}
        self._mentions: dict[int, frozenset[str]] = {}

    def at(self, point: Point) -> Usage:
        """What a branch uses."""
        key = tuple(point.items())
        if key not in self._kept:
            self._kept[key] = self._find(point)
        return self._kept[key]

    def _find(self, point: Point) -> Usage:
        roots = tuple(self._roots_at(point))
        lets: dict[str, Expr] = {}
        pending = [n for root in roots for n in self._lets_of(root.node, root.names, point)]
        while pending:
            name = pending.pop()
            declaration = self.facts.signature.lets.get(name)
            if name in lets or declaration is None or declaration.node is None:
                continue
            lets[name] = folded = self.facts.fold(declaration.node, point)
            pending += self._lets_of(declaration.node, self.catalogue.names(folded), point)
        order = self.catalogue.let_places
        return Usage(
            roots,
            {name: lets[name] for name in sorted(lets, key=order.__getitem__)},
            all(
                tensor.dtype.node is not None
                and self.families.parts(tensor.shape, point) is not None
                for tensor in self.facts.tensors
                if self.facts.present(tensor.name, point)
            ),
        )

    def _lets_of(self, node: Expr | Shape, names: frozenset[str], point: Point) -> list[str]:
        """The lets that a used tree reads; one that the branch decides counts where folded too."""
        lets = self.facts.signature.lets
        mentioned = self._mentions.get(id(node))
        if mentioned is None:
            found = {n.id for n in walk(node) if isinstance(n, Name)}
            mentioned = self._mentions[id(node)] = frozenset(found & set(lets))
        return [n for n in lets if n in names or (n in mentioned and self._decides(n, point))]

    def _decides(self, let: str, point: Point) -> bool:
        node = self.facts.signature.lets[let].node
        return node is not None and self.facts.subject(node, point) is not None

    def _roots_at(self, point: Point) -> Iterator[Root]:
        signature = self.facts.signature
        for tensor in self.facts.tensors:
            if self.facts.present(tensor.name, point):
                yield from self._expression(tensor.dtype, point)
                yield from self._shape(tensor.shape, point)
        for rule in signature.shape_rules:
            yield from self._expression(rule, point)
        for formula in self.facts.formulas:
            yield from self._expression(formula, point)

    def _expression(self, declaration: Declaration[Expr], point: Point) -> Iterator[Root]:
        if declaration.node is None:
            return
        folded = self.facts.fold(declaration.node, point)
        if folded != Constant(True):
            names = self.catalogue.names(folded)
            yield Root(declaration.path, declaration.node, names)

    def _shape(self, declaration: Declaration[Shape], point: Point) -> Iterator[Root]:
        parts = self.families.parts(declaration, point)
        if parts is None or declaration.node is None:
            return
        values = [value_of(part) for part in parts]
        names = frozenset[str]().union(*map(self.catalogue.names, values))
        yield Root(declaration.path, declaration.node, names)
