"""From a spec to its plan: every branch planned by itself, then all of them as one.

Construction points are planned first, alone; what they solve is known to the calls. Each branch
contributes the actions it needs; equal actions of several branches become one step under a joint
guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from tileops._core.lang.nodes import Bytes, Expr, Splice
from tileops._core.signature.actions import Action, Step, schedule
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.conditions import reached
from tileops._core.signature.discriminants import Point
from tileops._core.signature.effects import effect_branch
from tileops._core.signature.guards import ALWAYS, NEVER, Space
from tileops._core.signature.plan import (
    EffectBranch,
    EffectCase,
    Formula,
    Guard,
    OutputForm,
    Plan,
)
from tileops._core.signature.steps import Called
from tileops._core.spec.model import Declaration, Finding, OpSpec, TensorOutput

K = TypeVar("K")


class PlanFault(ValueError):
    """A spec that yields no plan; `findings` holds the errors, the first one first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(f"{findings[0].op} {findings[0].field}: {findings[0].message}")


def build_plan(spec: OpSpec) -> Plan:
    """Decide everything about an op class.

    Args:
        spec: a spec whose fields could all be read.

    Raises:
        PlanFault: the spec has an error that the signature's checks find.
    """
    from tileops._core.signature.check import complaints
    from tileops._core.signature.findings import findings

    analysis = Analysis(spec)
    found = (*spec.faults, *findings(spec, complaints(analysis)))
    errors = [finding for finding in found if finding.level == "error"]
    if errors:
        raise PlanFault(errors)
    return Planner(analysis).plan()


def effect_branches(spec: OpSpec) -> tuple[EffectBranch, ...]:
    """The effect branches that the plan of a right spec has, in its order, without the rest of it.

    Of a spec with an error they are not worth much, and anything may be raised.
    """
    return tuple(case.branch for case in Planner(Analysis(spec)).effects())


class Planner:
    """Puts the branches of one spec together.

    Args:
        analysis: the branches, each planned by itself.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.spec = analysis.spec
        self.facts = analysis.facts
        self.families = analysis.families
        self.branches = analysis.branches
        self.catalogue = analysis.catalogue

    def plan(self) -> Plan:
        """The plan of the whole spec."""
        branches, roofline = self.branches, self.spec.roofline
        return Plan(
            spec=self.spec,
            discriminants=branches.participating,
            construction=self._merge(
                branches.constructions,
                self.analysis.steps.every_construction(),
                [c.actions for c in self.analysis.constructed],
                {},
            ),
            call=self._merge(
                branches.accepted,
                self.analysis.steps.every_call(),
                [c.actions for c in self.analysis.calls],
                self._known_to_calls(),
            ),
            outputs=tuple(self._outputs()),
            effects=self.effects(),
            solved_at_construction=frozenset[str]().union(
                *(c.known for c in self.analysis.constructed)
            ),
            lets_used=self._lets_used(),
            flops=self._formulas(roofline.flops if roofline else None),
            bytes=self._formulas(roofline.bytes if roofline else None),
        )

    def effects(self) -> tuple[EffectCase, ...]:
        """What calls write and return, by branch."""
        cases = self._cases(lambda point: effect_branch(self.facts, point))
        return tuple(EffectCase(guard, branch) for branch, guard in cases)

    def _merge(
        self,
        space: Space,
        everywhere: Iterable[Action],
        branches: Iterable[Iterable[Action]],
        known: Mapping[str, int],
    ) -> tuple[Any, ...]:
        """The steps of all branches in one order, each under its guard."""
        occurs = dict.fromkeys(everywhere, space.everything)
        for bit, actions in enumerate(branches):
            for action in actions:
                occurs[action] = occurs.get(action, 0) | 1 << bit
        merged: list[Step] = [
            replace(action.step, guard=self._guard(space, action, where))
            for action, where in schedule(occurs, known)
        ]
        return tuple(merged)

    def _guard(self, space: Space, action: Action, where: int) -> Guard:
        """The branches of an action; what an independent input needs is for where it is passed."""
        guard, own = space.guard(where, action.near), action.near & self.branches.independent
        passed = dict.fromkeys(sorted(own), frozenset({True}))
        return Guard(tuple({**clause, **passed} for clause in guard.clauses)) if own else guard

    def _known_to_calls(self) -> dict[str, int]:
        """The branches on which a name has its value from the construction."""
        known: dict[str, int] = {}
        for bit, origin in enumerate(self.branches.origins):
            for name in self.analysis.constructed[origin].known:
                known[name] = known.get(name, 0) | 1 << bit
        return known

    def _cases(self, key: Callable[[Mapping[str, Any]], K | None]) -> Iterator[tuple[K, Guard]]:
        """The values that a property of branches takes, each with the guard of its branches."""
        found: dict[K, int] = {}
        space = self.branches.accepted
        for bit, point in enumerate(space.points):
            value = key(point)
            if value is not None:
                found[value] = found.get(value, 0) | 1 << bit
        for value, where in found.items():
            yield value, space.guard(where)

    def _outputs(self) -> Iterator[OutputForm]:
        for output in self.facts.signature.outputs.values():
            for form, guard in self._cases(partial(self._output, output)):
                yield replace(form, guard=guard)

    def _output(self, output: TensorOutput, point: Point) -> OutputForm | None:
        """An output's form on a branch where it is present."""
        parts = self.families.parts(output.shape, point)
        dtype = output.dtype.node
        if not self.facts.present(output.name, point) or parts is None or dtype is None:
            return None
        axes = tuple((part.value,) if isinstance(part, Splice) else part for part in parts)
        return OutputForm(NEVER, output.name, axes, self.facts.fold(dtype, point))

    def _lets_used(self) -> dict[str, Guard]:
        found: dict[str, int] = {}
        for bit, usage in enumerate(self.analysis.usages):
            for name in usage.lets:
                found[name] = found.get(name, 0) | 1 << bit
        order = [name for name in self.facts.signature.lets if name in found]
        return {name: self.branches.accepted.guard(found[name]) for name in order}

    def _formulas(self, formula: Declaration[Expr] | None) -> tuple[Formula, ...]:
        """A formula as written where every branch can run it, else folded branch by branch."""
        if formula is None or formula.node is None:
            return ()
        node = formula.node
        if all(map(partial(self._runs, node), self.branches.accepted.points, self.analysis.calls)):
            return (Formula(ALWAYS, node),)
        folded: Iterator[tuple[Expr, Guard]] = self._cases(partial(self.facts.fold, node))
        return tuple(Formula(guard, expr) for expr, guard in folded)

    def _runs(self, formula: Expr, point: Point, called: Called) -> bool:
        """Whether all that a formula would read on a branch is there."""
        for read in reached(formula, self.facts, point):
            if isinstance(read, Bytes) and not self.facts.present(read.name, point):
                return False
            if not self.facts.has_payload(read, point):
                return False
            if not isinstance(read, Bytes) and not self.catalogue.values(read) <= called.known:
                return False
        return True
