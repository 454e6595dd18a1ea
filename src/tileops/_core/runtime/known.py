"""What was known when a check failed, read off the variables of the generated function.

Errors are made from this only once a check has failed; a check that passes formats nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tileops._core.codegen.names import Names, Solving, solved_name, spell
from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.kinds import DTypeKind, payload
from tileops._core.lang.nodes import Constant, Expr, Name
from tileops._core.lang.printer import to_text
from tileops._core.lang.reads import reads
from tileops._core.lang.values import shown
from tileops._core.runtime.symbolic import is_symbolic
from tileops._core.runtime.tensors import name_of_dtype
from tileops._core.signature.plan import (
    CheckAxis,
    CheckRank,
    CheckSplice,
    ComputeLet,
    Discriminant,
    Guard,
    OutputForm,
    Plan,
    Position,
    SolveAxis,
    SolveDtype,
    Value,
)
from tileops._core.spec.model import TensorInput
from tileops.errors import Phase

ShapeStep = CheckRank | CheckAxis | CheckSplice | SolveAxis


class Known:
    """The values that a generated function had bound when it failed.

    Args:
        plan: the plan that it was generated from.
        phase: the step list that it runs.
        number: the step that failed; what later steps bind is not known yet.
        variables: its local variables.
    """

    def __init__(self, plan: Plan, phase: Phase, number: int, variables: Mapping[str, Any]) -> None:
        self.plan = plan
        self.phase = phase
        self._number = number
        self._variables = variables
        self._names = Names(plan)
        self._constructed = variables.get("known")

    def value(self, name: str) -> Any:
        """The value of an index, a let or a parameter; None where it has none."""
        found = self._variables.get(self._names.variable(name))
        if found is None and self._constructed is not None:
            found = self._constructed.get(name, self._constructed.parameters.get(name))
        return found

    def shown(self, name: str) -> str:
        """The value of a name as messages print it, dtypes by their bare name."""
        value, kind = self.value(name), self._names.kind(name)
        is_dtype = kind is not None and isinstance(payload(kind), DTypeKind)
        return str(value) if is_dtype else shown(value)

    def tensor(self, name: str) -> Any:
        """A tensor, or what was passed for it."""
        return self._variables.get(spell("in", name))

    def present(self, name: str) -> bool:
        """Whether a tensor, `out`, an optional parameter or the value of a let is there."""
        if self._names.param(name) is not None or self._names.let(name) is not None:
            return self.value(name) is not None
        return self.tensor(name) is not None

    def behind(self, expr: Expr) -> Iterator[Expr]:
        """An expression, and the definitions of the lets behind it that have no value yet."""
        pending, entered = [expr], set[str]()
        while pending:
            tree = pending.pop(0)
            yield tree
            read = reads(tree)
            for name in dict.fromkeys((*read.names, *read.presences)):
                definition = self._names.let(name)
                if definition is not None and self.value(name) is None and name not in entered:
                    entered.add(name)
                    pending.append(definition)

    def settles(self, name: str) -> bool:
        """Whether it is known in this phase if something is there."""
        return self.phase == "call" or name in self.plan.spec.signature.params

    def shape(self, name: str) -> tuple[Any, ...]:
        """The shape of a tensor."""
        return tuple(self.tensor(name).shape)

    def expected(self, expr: Expr) -> Any:
        """The value that a tensor's part had to equal."""
        if isinstance(expr, Constant):
            return expr.value
        return self.value(expr.id) if isinstance(expr, Name) else self._variables.get("expected")

    def evaluated(self, expr: Expr) -> Any:
        """The value of an expression, or its text where it reads symbolic sizes."""
        return to_text(expr) if self.reads_symbols(expr) else evaluate(expr, self)

    def reads_symbols(self, expr: Expr) -> bool:
        """Whether an expression reads a symbolic size."""
        values = [self.value(name) for name in reads(expr).names]
        items = [item for v in values for item in (v if isinstance(v, tuple) else (v,))]
        return any(map(is_symbolic, items))

    def output(self, name: str) -> tuple[tuple[Any, ...], str]:
        """The inferred shape and dtype of an output."""
        inferred: dict[str, tuple[tuple[Any, ...], str]] = self._variables["outputs"]
        return inferred[name]

    def dtype(self, name: str) -> str | None:
        """The name of a tensor's dtype."""
        tensor = self.tensor(name)
        return name_of_dtype(tensor.dtype) if hasattr(tensor, "dtype") else None

    def output_form(self, name: str) -> OutputForm:
        """The form of an output on this branch."""
        point = self._point()
        forms = (form for form in self.plan.outputs if form.name == name)
        return next(form for form in forms if form.guard.holds(point))

    def _point(self) -> dict[str, Value]:
        """The branch, as far as the phase knows it."""
        return {d.name: self._discriminant(d) for d in self.plan.discriminants}

    def deciding(self, step: ShapeStep) -> list[str]:
        """The parameters by which a shape has this part: read in it, and asked for by the guard."""
        point, node = self._point(), step.tensor.shape.node
        read = () if node is None else reads(node).names
        asked = {name for c in step.guard.clauses if Guard((c,)).holds(point) for name in c}
        return [d.name for d in self._choices() if d.name in read and d.name in asked]

    def ranks_elsewhere(self, step: CheckRank) -> Iterator[tuple[str, Value, CheckRank]]:
        """What one other choice of a parameter would ask of the number of axes."""
        point, deciding = self._point(), self.deciding(step)
        for other in self.plan.call if self.phase == "call" else self.plan.construction:
            if not isinstance(other, CheckRank) or other.tensor is not step.tensor:
                continue
            for choice in self._choices():
                for value in choice.values if choice.name in deciding else ():
                    if value != point[choice.name] and other.guard.holds(
                        {**point, choice.name: value}
                    ):
                        yield choice.name, value, other

    def _choices(self) -> Iterator[Discriminant]:
        """The discriminants that are a parameter's value."""
        return (found for found in self.plan.discriminants if found.source == "param")

    def bindings(self) -> Iterator[str]:
        """Every solved name with its value and where it came from."""
        for name, step in self._solved().items():
            yield f"{name}={self.shown(name)} from {self._where(step)}"

    def origin(self, name: str) -> str | None:
        """Where the value of a name came from."""
        step = self._solved().get(name)
        if step is not None:
            return self._where(step)
        return f"params.{name}" if self._names.param(name) is not None else None

    def _solved(self) -> dict[str, Solving]:
        """The solved names, each with the step that gave it its value."""
        point = self._point()
        return {
            solved_name(step): step
            for step in self._steps_so_far()
            if step.guard.holds(point) and self.value(solved_name(step)) is not None
        }

    def _steps_so_far(self) -> Iterator[Solving]:
        """The solving steps that ran before the one that failed."""
        if self.phase == "call":
            yield from (step for _, step in self._names.sites("construction"))
        for number, step in self._names.sites(self.phase):
            if number < self._number:
                yield step

    def _discriminant(self, found: Discriminant) -> Value:
        """A discriminant's value; None for one that the phase does not know."""
        if found.source != "param":
            return self.present(found.name)
        if self._names.adt(found.name) is not None:
            case: Value = self._variables.get(spell("case", found.name))
            if case is None and self._constructed is not None:
                case = self._constructed.cases.get(found.name)
            return case
        value: Value = self.value(found.name)
        return "given" if value is not None and "given" in found.values else value

    def _where(self, step: Solving) -> str:
        """The place that gave a name its value."""
        if isinstance(step, ComputeLet):
            return f"let.{step.name}"
        tensor = f"{section(step.tensor)}.{step.tensor.name}"
        if isinstance(step, SolveDtype):
            return f"{tensor} dtype"
        if isinstance(step, SolveAxis):
            return f"{tensor} axis {self.axis(step.tensor, step.position)}"
        start, rank = self.count(step.start), len(self.shape(step.tensor.name))
        stop = rank - self.count(step.stop)
        return f"{tensor} {axes(start, stop)}" if stop > start else tensor

    def axis(self, tensor: TensorInput, position: Position) -> int:
        """The number of the axis at a position."""
        count = self.count(position)
        return count if position.side == "left" else len(self.shape(tensor.name)) - 1 - count

    def count(self, position: Position) -> int:
        """How many axes stand before a position, or after it."""
        return position.fixed + sum(self.length(splice) for splice in position.splices)

    def length(self, splice: Expr) -> int:
        """The number of axes in a run."""
        return len(evaluate(splice, self))

    def bytes(self, name: str) -> int:
        """No check asks for a tensor's size."""
        raise KeyError(name)


def section(tensor: TensorInput) -> str:
    """The part of the signature that declares a tensor."""
    return "inputs" if tensor.role == "input" else "params"


def axes(start: int, stop: int) -> str:
    """A run of at least one axis in words."""
    return f"axis {start}" if stop == start + 1 else f"axes {start} to {stop - 1}"
