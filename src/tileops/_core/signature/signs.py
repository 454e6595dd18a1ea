"""Which sizes must be checked not to be negative.

A size of kind `Dim` never is. Any other is checked where it is an axis, an item of a run of axes,
or an argument that stands for one in a type family: at construction when its names are known
there and its tensor is certainly present, else per call. An axis of an input equals a length, so
a call need not check it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial

from tileops._core.lang.nodes import Expr, Splice
from tileops._core.signature.actions import Action, Catalogue, Phase
from tileops._core.signature.discriminants import Point
from tileops._core.signature.families import Families
from tileops._core.signature.guards import NEVER
from tileops._core.signature.plan import CheckNonNegative
from tileops._core.signature.scope import Scope
from tileops._core.signature.unify import Known, value_of
from tileops._core.spec.model import TensorInput, TensorOutput


class Signs:
    """Makes the checks of signs.

    Args:
        catalogue: where actions are kept.
        families: expansion of shapes.
        scope: kinds of axes.
    """

    def __init__(self, catalogue: Catalogue, families: Families, scope: Scope) -> None:
        self.catalogue = catalogue
        self.facts = catalogue.facts
        self.families = families
        self.scope = scope

    def at_construction(self, known: Known, point: Point) -> dict[Expr, Action]:
        """The sizes that a construction point checks."""
        found: dict[Expr, Action] = {}
        for place, tensor in enumerate(self.facts.tensors):
            if self.facts.present(tensor.name, point):
                for expr, action in self._of(tensor, place, known, point):
                    found.setdefault(expr, action)
        return found

    def at_call(self, known: Known, point: Point, checked: Set[Expr]) -> Iterator[Action]:
        """The sizes that a branch checks, of those that construction did not."""
        seen = {*checked, *self._lengths(point)}
        for place, tensor in enumerate(self.facts.tensors):
            if self.facts.present(tensor.name, point):
                for expr, action in self._of(tensor, place, known, point):
                    if expr not in seen:
                        seen.add(expr)
                        yield action

    def _lengths(self, point: Point) -> Iterator[Expr]:
        """Axes that equal a length of a tensor."""
        for tensor in (*self.facts.signature.held, *self.facts.signature.inputs.values()):
            if self.facts.present(tensor.name, point):
                for part in self.families.parts(tensor.shape, point) or ():
                    yield value_of(part)

    def _of(
        self, tensor: TensorInput | TensorOutput, place: int, known: Known, point: Point
    ) -> Iterator[tuple[Expr, Action]]:
        parts = self.families.parts(tensor.shape, point) or ()
        arguments = self.families.sized_arguments(tensor.shape, point)
        for number, part in enumerate((*parts, *arguments)):
            expr = value_of(part)
            if known(expr) and not self.scope.is_natural(expr, point):
                make = partial(
                    self._action, tensor, (place, number), expr, isinstance(part, Splice)
                )
                yield expr, self.catalogue.action(("sign", tensor.name, id(expr)), make)

    def _action(
        self,
        tensor: TensorInput | TensorOutput,
        place: tuple[int, int],
        expr: Expr,
        many: bool,
    ) -> Action:
        shape = tensor.shape
        return Action(
            order=(Phase.SIGN, *place),
            reads=self.catalogue.names(expr),
            binds=None,
            step=CheckNonNegative(NEVER, shape.path, shape.text, expr, many),
            near=frozenset(self.facts.presence_reads(tensor.name)),
        )
