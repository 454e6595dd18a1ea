"""What the emitters of one source unit share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tileops._core.codegen.analysis import may_fail
from tileops._core.codegen.guards import Guards
from tileops._core.codegen.lower import Lowering
from tileops._core.codegen.names import Names, spell
from tileops._core.codegen.writer import SourceWriter
from tileops._core.lang.nodes import Expr
from tileops._core.signature.plan import Plan
from tileops._core.spec.model import Declaration, Location, Signature

Phase = Literal["construction", "call", "record"]
"""The step list that is printed, or what is computed from the record of a call."""


@dataclass(frozen=True)
class Context:
    """The plan, the writer, and the three printers of its parts.

    `emitters` maps a class of steps to the function that prints one; `phase` is the step list
    being printed.
    """

    plan: Plan
    writer: SourceWriter
    names: Names
    guards: Guards
    lowering: Lowering
    phase: Phase

    @classmethod
    def of(cls, plan: Plan, phase: Phase) -> Context:
        """A context with an empty writer."""
        names = Names(plan, traced=phase == "call" and plan.spec.has_boundary)
        return cls(
            plan,
            SourceWriter(),
            names,
            Guards(names),
            Lowering(names, of_record=phase == "record"),
            phase,
        )

    @property
    def signature(self) -> Signature:
        """The signature that is printed."""
        return self.plan.spec.signature

    def helper(self, name: str) -> str:
        """The name of a helper, which the unit then imports."""
        return self.lowering.helper(name)

    def declare(self, declaration: Declaration[Any], note: str = "") -> None:
        """A comment with a declaration's path, its text and its place."""
        quoted = f'{bare(declaration.path)} "{declaration.text}"{note}'
        self.writer.declare(quoted, declaration.location)

    def declare_path(self, path: str, location: Location) -> None:
        """A comment with the path of something that has no text of its own."""
        self.writer.declare(path, location)

    def reject(self, number: int, condition: str) -> None:
        """Raise where `condition`, which is a Python truth value, holds."""
        with self.writer.block(f"if {condition}"):
            self.writer.line(f"raise faults.error({number}, locals())")

    def require(self, number: int, condition: str) -> None:
        """Demand a truth that may be symbolic."""
        truth = condition if condition == "ok" else f"(ok := {condition})"
        with self.writer.block(f"if {truth} is not True"):
            self.writer.line(f"faults.hold(ok, {number}, locals())")

    def demand(self, number: int, expr: Expr, condition: str, breach: str) -> None:
        """Demand what `condition` says about `expr`; `breach` is its negation.

        Where the expression may fail to evaluate, that is a fault of the same declaration.
        """
        symbolic = self.lowering.is_symbolic(expr)
        if may_fail(expr, self.names):
            self.attempt(number, f"ok = {condition}")
            condition, breach = "ok", "not ok"
        if symbolic:
            self.require(number, condition)
        else:
            self.reject(number, breach)

    def attempt(self, number: int, statement: str) -> None:
        """A statement whose evaluation may fail, which is then a fault of its declaration."""
        with self.writer.block("try"):
            self.writer.line(statement)
        with self.writer.block(f"except {self.helper('EVALUATION_FAULTS')} as reason"):
            self.writer.line(f"raise faults.error({number}, locals(), reason) from reason")

    @contextmanager
    def where_known(self, expr: Expr) -> Iterator[None]:
        """A block that runs where every dtype that `expr` depends on was given."""
        unsure = [spell("dtype", name) for name in self.names.call_dtypes(expr)]
        if self.phase == "construction" or not unsure:
            yield
            return
        with self.writer.block(f"if {' and '.join(f'{name} is not None' for name in unsure)}"):
            yield


def bare(path: str) -> str:
    """A field path without its leading `signature.`."""
    return path.removeprefix("signature.")
