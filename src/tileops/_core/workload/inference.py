"""Running the steps of a signature on shapes and dtypes alone, without tensors.

What generated code does on a call, done here by reading the steps: enough for rows, where nothing
has a device, an address or strides. Invariant: a step runs only after what it reads has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.nodes import Expr
from tileops._core.lang.reads import reads
from tileops._core.lang.values import shown
from tileops._core.signature.actions import Action
from tileops._core.signature.plan import (
    CheckAxis,
    CheckCombos,
    CheckDtype,
    CheckNonNegative,
    CheckRank,
    CheckRule,
    CheckSplice,
    ComputeLet,
    Position,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)
from tileops._core.spec.model import Declaration, OpSpec, TensorInput


class InferenceFault(ValueError):
    """A declaration that does not hold; `path` and `text` name it."""

    def __init__(self, path: str, text: str, message: str) -> None:
        self.path = path
        self.text = text
        self.message = message
        super().__init__(path, text, message)

    def __str__(self) -> str:
        return f'{self.path} "{self.text}": {self.message}'


class Inference:
    """Values of names while steps run; a scope for expressions.

    Args:
        spec: the spec.
        values: what is known from the start: parameters, and indices where a row gives them.
        presence: whether a tensor, an output or a parameter is there.
        shapes: shapes of tensors by name.
        dtypes: dtypes of tensors by name.
    """

    def __init__(
        self,
        spec: OpSpec,
        values: Mapping[str, Any],
        presence: Callable[[str], bool],
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, str],
    ) -> None:
        self.spec = spec
        self.values = dict(values)
        self.shapes = dict(shapes)
        self.dtypes = dict(dtypes)
        self._presence = presence
        self._steps: dict[type, Callable[[Any], None]] = {
            CheckRule: self._check_rule,
            SolveDtype: self._solve_dtype,
            CheckDtype: self._check_dtype,
            CheckCombos: self._check_combos,
            CheckRank: self._check_rank,
            SolveAxis: self._solve_axis,
            SolveSplice: self._solve_splice,
            CheckAxis: self._check_axis,
            CheckSplice: self._check_splice,
            ComputeLet: self._compute_let,
            CheckNonNegative: self._check_non_negative,
        }

    def run(self, actions: Iterable[Action]) -> None:
        """Run steps in the order given; those about devices, layouts and buffers do nothing.

        Raises:
            InferenceFault: a declaration does not hold.
        """
        for action in actions:
            step = self._steps.get(type(action.step))
            if step is not None:
                step(action.step)

    # A scope for expressions

    def value(self, name: str) -> object:
        """The value of a name."""
        return self.values[name]

    def present(self, name: str) -> bool:
        """Whether a tensor, an output, a `Maybe` or `out` is there."""
        return self._presence(name)

    def bytes(self, name: str) -> int:
        """Sizes are not known here."""
        raise KeyError(name)

    def evaluate(self, expr: Expr, path: str, text: str) -> Any:
        """The value of an expression of a declaration.

        Raises:
            InferenceFault: it fails.
        """
        try:
            return evaluate(expr, self)
        except EvaluationFault as fault:
            raise InferenceFault(path, text, fault.message) from None

    # Steps

    def _check_rule(self, step: CheckRule) -> None:
        declared = step.declaration
        if self.evaluate(step.expr, declared.path, declared.text) is not True:
            raise InferenceFault(
                declared.path, declared.text, f"does not hold{self._where(declared)}"
            )

    def _where(self, declared: Declaration[Any]) -> str:
        return where(declared, self.values)

    def _solve_dtype(self, step: SolveDtype) -> None:
        found = self.dtypes[step.tensor.name]
        kind = self.spec.signature.forall[step.index].kind
        if isinstance(kind, DTypeKind) and found not in kind.members:
            raise self._fault(step.tensor.dtype, f"{found} is not in {step.index} = {kind}")
        self.values[step.index] = found

    def _check_dtype(self, step: CheckDtype) -> None:
        declared, found = step.tensor.dtype, self.dtypes[step.tensor.name]
        wanted = self.evaluate(step.expr, declared.path, declared.text)
        if wanted != found:
            raise self._fault(declared, f"expected {wanted}, got {found}")

    def _check_combos(self, step: CheckCombos) -> None:
        names = step.rows[0].dtypes
        found = {name: self.values[name] for name in names}
        if found not in [dict(row.dtypes) for row in step.rows]:
            raise InferenceFault("signature.dtype_combos", "", f"no row is {shown(found)}")

    def _check_rank(self, step: CheckRank) -> None:
        declared = step.tensor.shape
        wanted = step.axes + sum(len(self._run(run, declared)) for run in step.splices)
        found = len(self.shapes[step.tensor.name])
        if found < wanted or (found > wanted and not step.open):
            least = "at least " if step.open else ""
            raise self._fault(declared, f"expected {least}{wanted} axes, got {found}")

    def _solve_axis(self, step: SolveAxis) -> None:
        declared = step.tensor.shape
        place = self._place(step.tensor, step.position)
        length = self.shapes[step.tensor.name][place]
        offset = (
            0 if step.offset is None else self.evaluate(step.offset, declared.path, declared.text)
        )
        solution, rest = divmod(length - offset, step.scale)
        if rest or solution < 0:
            reason = (
                f"axis {place} has length {shown(length)}, which no {step.index} >= 0 satisfies"
            )
            raise self._fault(declared, reason)
        self.values[step.index] = solution

    def _solve_splice(self, step: SolveSplice) -> None:
        shape = self.shapes[step.tensor.name]
        start = self._offset(step.tensor, step.start)
        stop = len(shape) - self._offset(step.tensor, step.stop)
        self.values[step.index] = shape[start:stop]

    def _check_axis(self, step: CheckAxis) -> None:
        declared = step.tensor.shape
        place = self._place(step.tensor, step.position)
        found = self.shapes[step.tensor.name][place]
        wanted = self.evaluate(step.axis, declared.path, declared.text)
        if found != wanted:
            raise self._fault(
                declared, f"axis {place} has length {shown(found)}, expected {shown(wanted)}"
            )

    def _check_splice(self, step: CheckSplice) -> None:
        declared, shape = step.tensor.shape, self.shapes[step.tensor.name]
        wanted = tuple(self._run(step.value, declared))
        offset = self._offset(step.tensor, step.position)
        start = offset if step.position.side == "left" else len(shape) - offset - len(wanted)
        found = shape[start : start + len(wanted)]
        if found != wanted:
            run = f"axes {start} to {start + len(wanted) - 1}"
            reason = f"{run} are {shown(found)}, expected {shown(wanted)}"
            raise self._fault(declared, reason)

    def _compute_let(self, step: ComputeLet) -> None:
        declared = step.declaration
        self.values[step.name] = self.evaluate(step.expr, declared.path, declared.text)

    def _check_non_negative(self, step: CheckNonNegative) -> None:
        value = self.evaluate(step.expr, step.path, step.text)
        items = value if step.many else (value,)
        if any(item < 0 for item in items):
            raise InferenceFault(step.path, step.text, f"an axis of length {shown(min(items))}")

    # Places

    def _place(self, tensor: TensorInput, position: Position) -> int:
        """The number of an axis."""
        offset = self._offset(tensor, position)
        return offset if position.side == "left" else len(self.shapes[tensor.name]) - offset - 1

    def _offset(self, tensor: TensorInput, position: Position) -> int:
        """The number of axes on a position's side."""
        runs = (self._run(run, tensor.shape) for run in position.splices)
        return position.fixed + sum(map(len, runs))

    def _run(self, expr: Expr, declared: Declaration[Any]) -> Any:
        return self.evaluate(expr, declared.path, declared.text)

    @staticmethod
    def _fault(declared: Declaration[Any], message: str) -> InferenceFault:
        return InferenceFault(declared.path, declared.text, message)


def where(declared: Declaration[Any], values: Mapping[str, Any]) -> str:
    """`, where R=64, C=256` for the names that a declaration reads and that have a value."""
    names = [] if declared.node is None else list(reads(declared.node).names)
    known = [f"{name}={shown(values[name])}" for name in names if name in values]
    return f": {', '.join(known)}" if known else ""
