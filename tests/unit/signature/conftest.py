"""Specs read from YAML text, and a run of a plan on shapes without generated code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.nodes import Expr
from tileops._core.signature.plan import (
    CheckAxis,
    CheckCombos,
    CheckDtype,
    CheckNonNegative,
    CheckOut,
    CheckPassed,
    CheckRank,
    CheckRule,
    CheckSplice,
    ComputeLet,
    Guard,
    Plan,
    Position,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)
from tileops._core.spec.adts import read_adts
from tileops._core.spec.model import OpSpec
from tileops._core.spec.reader import read_spec
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import read_yaml

SOURCE = Source("test.yaml", "acme")

TYPES = """
RowStore:
  sum:
    dense: {python: acme.layouts.Dense, fields: {cols: Dim}}
    tiled:
      python: acme.layouts.Tiled
      fields: {tile: Dim, order: "'row' | 'col'", padded: Bool}
      invariant: "tile > 0 and (order == 'row' or not padded)"
"""


def read(signature: str, roofline: str = "{flops: 0}", extra: str = "") -> OpSpec:
    body = "\n".join(f"    {line}" for line in signature.strip("\n").splitlines())
    text = (
        "TestFwdOp:\n  family: test\n  status: implemented\n"
        f"  signature:\n{body}\n  workloads: [{{label: none}}]\n  roofline: {roofline}\n"
    )
    text += "".join(f"  {line}\n" for line in extra.splitlines())
    adts = read_adts(read_yaml(TYPES.encode()).root.value, SOURCE)
    return read_spec("TestFwdOp", read_yaml(text.encode()).root.value["TestFwdOp"], SOURCE, adts)


@pytest.fixture(scope="session")
def spec_of() -> Callable[..., OpSpec]:
    """Reads a spec from the text of its signature."""
    return read


class Violation(Exception):
    """A check of the plan that does not hold; holds the step."""


class Run:
    """One call, run step by step as the plan lists them."""

    def __init__(
        self,
        plan: Plan,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, str],
        params: Mapping[str, Any],
        has_out: bool = False,
    ) -> None:
        self.plan, self.shapes, self.dtypes = plan, shapes, dtypes
        self.values: dict[str, Any] = dict(params)
        self.has_out = has_out
        self.point = {d.name: self._value(d) for d in plan.discriminants}

    def _value(self, d: Any) -> Any:
        if d.source in {"held", "passed"}:
            return d.name in self.shapes
        if d.source == "out":
            return self.has_out
        value = self.values[d.name]
        return value if value is None or value in d.values else "given"

    # The scope of expressions

    def value(self, name: str) -> Any:
        return self.values[name]

    def present(self, name: str) -> bool:
        return self.has_out if name == "out" else (
            name in self.shapes or self.values.get(name) is not None
        )  # fmt: skip

    def bytes(self, name: str) -> int:
        raise AssertionError(name)

    def evaluate(self, expr: Expr) -> Any:
        return evaluate(expr, self)

    def holds(self, guard: Guard) -> bool:
        return any(
            all(self.point[name] in values for name, values in clause.items())
            for clause in guard.clauses
        )

    # The steps

    def run(self) -> dict[str, Any]:
        for step in (*self.plan.construction, *self.plan.call):
            if self.holds(step.guard) and not self.passes(step):
                raise Violation(step)
        return self.values

    def passes(self, step: Any) -> bool:
        handler = _HANDLERS.get(type(step))
        return handler is None or handler(self, step) is not False

    def place(self, position: Position, rank: int) -> int:
        offset = position.fixed + sum(len(self.evaluate(s)) for s in position.splices)
        return offset if position.side == "left" else rank - 1 - offset

    def passed(self, step: CheckPassed) -> bool:
        wanted = step.tensor.optional is not True
        if step.condition is not None:
            wanted = self.evaluate(step.condition)
        elif step.tensor.optional is True:
            wanted = step.tensor.name in self.shapes
        return wanted == (step.tensor.name in self.shapes)

    def solve_dtype(self, step: SolveDtype) -> None:
        assert step.index not in self.values
        self.values[step.index] = self.dtypes[step.tensor.name]

    def rank(self, step: CheckRank) -> bool:
        rank = len(self.shapes[step.tensor.name])
        least = step.axes + sum(len(self.evaluate(s)) for s in step.splices)
        return rank >= least if step.open else rank == least

    def solve_axis(self, step: SolveAxis) -> bool:
        assert step.index not in self.values
        shape = self.shapes[step.tensor.name]
        length = shape[self.place(step.position, len(shape))]
        rest = length - (self.evaluate(step.offset) if step.offset is not None else 0)
        self.values[step.index] = rest // step.scale
        return rest % step.scale == 0 and rest >= 0

    def solve_splice(self, step: SolveSplice) -> None:
        assert step.index not in self.values
        shape = self.shapes[step.tensor.name]
        stop = self.place(step.stop, len(shape)) + 1
        self.values[step.index] = shape[self.place(step.start, len(shape)) : stop]

    def axis(self, step: CheckAxis) -> bool:
        shape = self.shapes[step.tensor.name]
        return shape[self.place(step.position, len(shape))] == self.evaluate(step.axis)

    def splice(self, step: CheckSplice) -> bool:
        shape, value = self.shapes[step.tensor.name], tuple(self.evaluate(step.value))
        start = self.place(step.position, len(shape))
        if step.position.side == "right":
            start -= len(value) - 1
        return shape[start : start + len(value)] == value

    def let(self, step: ComputeLet) -> None:
        assert step.name not in self.values
        self.values[step.name] = self.evaluate(step.expr)

    def non_negative(self, step: CheckNonNegative) -> bool:
        value = self.evaluate(step.expr)
        return all(item >= 0 for item in (value if step.many else (value,)))


_HANDLERS: dict[type, Callable[[Run, Any], Any]] = {
    CheckPassed: Run.passed,
    CheckRule: lambda run, step: run.evaluate(step.expr),
    SolveDtype: Run.solve_dtype,
    CheckDtype: lambda run, step: run.dtypes[step.tensor.name] == run.evaluate(step.expr),
    CheckCombos: lambda run, step: any(
        all(run.values[name] == dtype for name, dtype in row.dtypes.items()) for row in step.rows
    ),
    CheckRank: Run.rank,
    SolveAxis: Run.solve_axis,
    SolveSplice: Run.solve_splice,
    CheckAxis: Run.axis,
    CheckSplice: Run.splice,
    ComputeLet: Run.let,
    CheckNonNegative: Run.non_negative,
    CheckOut: lambda run, step: not step.absent,
}


@pytest.fixture(scope="session")
def run_plan() -> Callable[..., dict[str, Any]]:
    """Runs a plan on shapes; returns all values that it knows in the end."""

    def run(plan: Plan, shapes: Any, dtypes: Any = None, has_out: bool = False, **params: Any):
        names = dict.fromkeys(shapes, "float16")
        return Run(plan, shapes, {**names, **(dtypes or {})}, params, has_out).run()

    return run


@pytest.fixture(scope="session")
def violation() -> type[Exception]:
    """What a run raises when a check does not hold."""
    return Violation
