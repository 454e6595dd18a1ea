"""The actions of one construction and of one call, phase by phase.

Solving is the business of `solve`; this module adds what surrounds it: arguments, restrictions,
devices, layouts, placement, signs, refinements and the output buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import Constant, Expr
from tileops._core.signature.actions import Action, Catalogue, Phase, Step
from tileops._core.signature.branches import Branches
from tileops._core.signature.discriminants import OUT, Point
from tileops._core.signature.effects import written
from tileops._core.signature.families import Families
from tileops._core.signature.guards import NEVER
from tileops._core.signature.plan import (
    CheckCombos,
    CheckHeld,
    CheckLayout,
    CheckOut,
    CheckParam,
    CheckPassed,
    CheckRule,
    PlaceHeld,
    SettleDevices,
)
from tileops._core.signature.scope import Scope
from tileops._core.signature.signs import Signs
from tileops._core.signature.solve import Operand, Solver
from tileops._core.signature.unify import Part
from tileops._core.signature.usage import Usage
from tileops._core.spec.model import Declaration, Param, TensorInput


@dataclass(frozen=True)
class Constructed:
    """What one construction point adds to a construction and leaves to the call.

    Attributes:
        actions: its steps.
        known: the indices and lets that it gives a value.
        rules: places of the refinements that it checked.
        signs: axes whose sign it checked.
        compared: axes of construction-time tensors that it bound or compared.
        ranks: the runs counted when the rank of a construction-time tensor was checked.
        combos: whether it checked the dtype combinations.
    """

    actions: tuple[Action, ...]
    known: frozenset[str]
    rules: frozenset[int]
    signs: frozenset[Expr]
    compared: frozenset[tuple[str, int, Part]]
    ranks: Mapping[str, frozenset[Expr] | None]
    combos: bool


@dataclass(frozen=True)
class Called:
    """What one branch adds to a call, and the names that have a value after it."""

    actions: tuple[Action, ...]
    known: frozenset[str]


class Steps:
    """Makes the actions of construction points and branches.

    Args:
        catalogue: where actions are kept.
        families: expansion of shapes.
        branches: domain restrictions.
        scope: kinds of axes.
    """

    def __init__(
        self, catalogue: Catalogue, families: Families, branches: Branches, scope: Scope
    ) -> None:
        self.catalogue = catalogue
        self.facts = catalogue.facts
        self.families = families
        self.branches = branches
        self.signs = Signs(catalogue, families, scope)
        signature = self.facts.signature
        self.held = self.facts.signature.held
        self.restricted = {restriction.place for restriction in branches.restrictions}
        tensors = (*signature.params, *signature.inputs, *signature.outputs)
        self.places = {name: place for place, name in enumerate(tensors)}

    def every_construction(self) -> Iterator[Action]:
        """What every construction does, whatever its branch."""
        yield from self._arguments()
        yield from self._restrictions(at_construction=True)

    def every_call(self) -> Iterator[Action]:
        """What every call does, whatever its branch."""
        yield from self._passed()
        yield from self._restrictions(at_construction=False)
        yield self._make(("devices",), (Phase.DEVICES,), lambda: SettleDevices(NEVER))

    def construction(self, point: Point, lets: Set[str]) -> Constructed:
        """What a construction point adds; all its branches use the lets named in `lets`."""
        folded = {
            name: self.facts.fold(let.node, point)
            for name, let in self.facts.signature.lets.items()
            if name in lets and let.node is not None
        }
        solver = Solver(self.catalogue, frozenset(), folded)
        operands = [self._operand(t, point) for t in self.held if self.facts.present(t.name, point)]
        solver.solve(operands)
        signs = self.signs.at_construction(solver.known, point)
        rules = dict(self._early_rules(solver, point))
        combos = [*self._combos(solver)]
        return Constructed(
            (
                *solver.actions,
                *combos,
                *signs.values(),
                *(action for action in rules.values() if action is not None),
            ),
            frozenset(solver.bound & {*self.facts.signature.forall, *self.facts.signature.lets}),
            frozenset(rules),
            frozenset(signs),
            frozenset(
                (operand.tensor.name, place, part)
                for operand in operands
                for place, part in enumerate(operand.parts or ())
                if place not in operand.pending
            ),
            {operand.tensor.name: operand.covered for operand in operands},
            bool(combos),
        )

    def call(self, point: Point, constructed: Constructed, usage: Usage) -> Called:
        """What a branch adds to a call."""
        lets = {n: e for n, e in usage.lets.items() if n not in constructed.known}
        solver = Solver(self.catalogue, constructed.known, lets)
        solver.solve([*self._held_operands(point, constructed), *self._passed_operands(point)])
        return Called(
            (
                *self._layouts(point),
                *self._placements(solver, point),
                *solver.actions,
                *(() if constructed.combos else self._combos(solver)),
                *self.signs.at_call(solver.known, point, constructed.signs),
                *self._late_rules(solver, point, constructed.rules),
                *self._buffer(point),
            ),
            frozenset(solver.bound),
        )

    def _make(
        self,
        key: tuple[object, ...],
        order: tuple[int, ...],
        step: Callable[[], Step],
        reads: frozenset[str] = frozenset(),
        near: Callable[[], tuple[str, ...]] = tuple,
    ) -> Action:
        """The one action of a key that binds nothing."""
        return self.catalogue.action(
            key, lambda: Action(order, reads, None, step(), frozenset(near()))
        )

    # Before solving

    def _arguments(self) -> Iterator[Action]:
        for place, (name, param) in enumerate(self.facts.signature.params.items()):
            if isinstance(param, Param):
                step = partial(CheckParam, NEVER, name)
                yield self._make(("param", name), (Phase.PARAMS, place), step)
        for tensor in self.held:
            yield self._make(
                ("held", tensor.name),
                (Phase.PRESENCE, self.places[tensor.name]),
                partial(self._presence, CheckHeld, tensor),
            )

    def _passed(self) -> Iterator[Action]:
        for tensor in self.facts.signature.inputs.values():
            yield self._make(
                ("passed", tensor.name),
                (Phase.PRESENCE, self.places[tensor.name]),
                partial(self._presence, CheckPassed, tensor),
            )

    def _presence(
        self, step: type[CheckHeld | CheckPassed], tensor: TensorInput
    ) -> CheckHeld | CheckPassed:
        """The check of a tensor's presence, its condition over discriminants only."""
        condition = tensor.optional.node if isinstance(tensor.optional, Declaration) else None
        return step(NEVER, tensor, condition and self.branches.runnable(condition))

    def _restrictions(self, at_construction: bool) -> Iterator[Action]:
        for restriction in self.branches.restrictions:
            if restriction.at_construction is at_construction:
                expr = self.branches.runnable(restriction.expr)
            elif at_construction:
                expr = self.branches.possible(restriction)
            else:
                continue
            if expr != Constant(True):
                yield self._make(
                    ("restriction", restriction.place, at_construction),
                    (Phase.DOMAIN, restriction.place),
                    partial(CheckRule, NEVER, restriction.declaration, expr, domain=True),
                )

    def _layouts(self, point: Point) -> Iterator[Action]:
        for name, tensor in self.facts.signature.inputs.items():
            writes = written(tensor, self.facts, point)
            if self.facts.present(name, point) and (tensor.contiguous or writes):
                yield self._make(
                    ("layout", name, writes),
                    (Phase.LAYOUT, self.places[name]),
                    partial(CheckLayout, NEVER, tensor, tensor.contiguous, writes),
                    near=partial(self.facts.presence_reads, name),
                )

    def _placements(self, solver: Solver, point: Point) -> Iterator[Action]:
        for tensor in self.held:
            if tensor.on_cpu or tensor.dtype.node is None:
                continue
            dtype = self.facts.fold(tensor.dtype.node, point)
            if self.facts.present(tensor.name, point) and solver.known(dtype):
                yield self._make(
                    ("place", tensor.name, id(dtype)),
                    (Phase.PLACE, self.places[tensor.name]),
                    partial(PlaceHeld, NEVER, tensor, dtype),
                    self.catalogue.names(dtype),
                    partial(self.facts.presence_reads, tensor.name),
                )

    # Operands

    def _operand(self, tensor: TensorInput, point: Point) -> Operand:
        dtype = tensor.dtype.node
        return Operand(
            tensor,
            self.places[tensor.name],
            None if dtype is None else self.facts.fold(dtype, point),
            self.families.parts(tensor.shape, point),
        )

    def _held_operands(self, point: Point, constructed: Constructed) -> Iterator[Operand]:
        """Construction-time tensors of which axes are left to compare."""
        for tensor in self.held:
            if not self.facts.present(tensor.name, point):
                continue
            operand = self._operand(tensor, point)
            operand.solves, operand.dtype = False, None
            operand.covered = constructed.ranks.get(tensor.name)
            operand.pending = [
                place
                for place, part in enumerate(operand.parts or ())
                if (tensor.name, place, part) not in constructed.compared
            ]
            if operand.pending:
                yield operand

    def _passed_operands(self, point: Point) -> Iterator[Operand]:
        for name, tensor in self.facts.signature.inputs.items():
            if self.facts.present(name, point):
                yield self._operand(tensor, point)

    # After solving

    def _combos(self, solver: Solver) -> Iterator[Action]:
        signature = self.facts.signature
        rows = signature.dtype_combos
        names = frozenset(rows[0].dtypes) if rows else frozenset()
        if rows and names <= solver.bound | signature.params.keys():
            yield self._make(
                ("combos",),
                (Phase.COMBOS,),
                lambda: CheckCombos(NEVER, rows),
                names - set(signature.params),
            )

    def _early_rules(self, solver: Solver, point: Point) -> Iterator[tuple[int, Action | None]]:
        """Refinements that construction decides, with the action where one is needed."""
        for place, expr in self._rules(point):
            if expr == Constant(True):
                yield place, None
            elif solver.known(expr):
                yield place, self._rule(place, expr)

    def _late_rules(self, solver: Solver, point: Point, checked: Set[int]) -> Iterator[Action]:
        for place, expr in self._rules(point):
            if place not in checked and expr != Constant(True) and solver.known(expr):
                yield self._rule(place, expr)

    def _rules(self, point: Point) -> Iterator[tuple[int, Expr]]:
        """The refinements that are no domain restrictions, folded."""
        for place, rule in enumerate(self.facts.signature.shape_rules):
            if place not in self.restricted and rule.node is not None:
                yield place, self.facts.fold(rule.node, point)

    def _rule(self, place: int, expr: Expr) -> Action:
        rule = self.facts.signature.shape_rules[place]
        return self._make(
            ("rule", place, id(expr)),
            (Phase.REFINE, place),
            partial(CheckRule, NEVER, rule, expr, domain=False),
            self.catalogue.names(expr),
            partial(self.facts.reads, rule.node or expr),
        )

    def _buffer(self, point: Point) -> Iterator[Action]:
        for name, output in self.facts.signature.outputs.items():
            if output.buffered and self.facts.present(OUT, point):
                absent = not self.facts.present(name, point)
                yield self._make(
                    ("out", name, absent),
                    (Phase.OUT, self.places[name]),
                    partial(CheckOut, NEVER, name, absent),
                    near=lambda: (OUT,),
                )
