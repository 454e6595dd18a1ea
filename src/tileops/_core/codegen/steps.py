"""One emitter per kind of step: presence, layouts, dtypes, shapes, values.

Each prints one check below a comment with its declaration. A check whose truth may be symbolic is
handed to `faults.hold`; any other raises by itself. Every step that can fail is known at run time
by its number in the plan, from which the error is made, with the variables as they are then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tileops._core.codegen.analysis import may_fail
from tileops._core.codegen.context import Context, bare
from tileops._core.codegen.names import spell
from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.nodes import Conditional, Constant, Expr, Name
from tileops._core.signature.plan import (
    CheckAxis,
    CheckCombos,
    CheckDtype,
    CheckHeld,
    CheckLayout,
    CheckNonNegative,
    CheckParam,
    CheckPassed,
    CheckRank,
    CheckRule,
    CheckSplice,
    ComputeLet,
    PlaceHeld,
    Position,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)
from tileops._core.spec.model import Declaration, TensorInput

S = TypeVar("S")
Emitter = Callable[[Context, int, Any], None]
EMITTERS: dict[type, Emitter] = {}


def emits(kind: type[S]) -> Callable[[Callable[[Context, int, S], None]], Emitter]:
    """Make a function the emitter of a kind of step."""

    def register(function: Callable[[Context, int, S], None]) -> Emitter:
        EMITTERS[kind] = function
        return function

    return register


def emit(context: Context, number: int, step: object) -> None:
    """Print one step."""
    EMITTERS[type(step)](context, number, step)


# Presence and layout


@emits(CheckParam)
def _param(context: Context, number: int, step: CheckParam) -> None:
    param = context.names.param(step.name)
    assert param is not None
    context.declare(param.type)
    context.writer.line(f"{spell('param', step.name)} = faults.parameter(op, {number})")


@emits(CheckHeld)
def _held(context: Context, number: int, step: CheckHeld) -> None:
    tensor, given = step.tensor, spell("in", step.tensor.name)
    _presence(context, number, tensor, step.condition, "params")
    tests = [f"{given}.is_contiguous()"] if tensor.contiguous else []
    if tensor.on_cpu:
        tests.append(f"{context.helper('on_cpu')}(({given},))")
    if tests:
        present = "" if tensor.optional is False else f"{spell('has', tensor.name)} and "
        breach = " and ".join(tests)
        context.reject(number, f"{present}not ({breach})")


@emits(CheckPassed)
def _passed(context: Context, number: int, step: CheckPassed) -> None:
    _presence(context, number, step.tensor, step.condition, "inputs")


def _presence(
    context: Context, number: int, tensor: TensorInput, condition: Expr | None, section: str
) -> None:
    """A tensor that is required, free to be absent, or there exactly under a condition."""
    given, has = spell("in", tensor.name), spell("has", tensor.name)
    # What is passed to a call has been refused before, unless it is an ordinary tensor.
    test = "is_ordinary" if section == "params" else "is_tensor"
    is_tensor = f"{context.helper(test)}({given})"
    if isinstance(tensor.optional, Declaration):
        context.declare(tensor.optional)
    else:
        context.declare_path(f"{section}.{tensor.name}", tensor.location)
    if condition is not None:
        wanted = context.lowering.text(condition)
        wanted = wanted if wanted.isidentifier() else f"({wanted})"
        context.reject(number, f"{has} != {wanted} or ({has} and not {is_tensor})")
    elif tensor.optional is False:
        context.reject(number, f"not {is_tensor}")
    else:
        context.reject(number, f"{has} and not {is_tensor}")


@emits(CheckLayout)
def _layout(context: Context, number: int, step: CheckLayout) -> None:
    given = spell("in", step.tensor.name)
    path = f"{_section(step.tensor)}.{step.tensor.name}"
    if step.contiguous:
        context.declare_path(f"{path}.contiguous true", step.tensor.location)
        context.reject(number, f"not {given}.is_contiguous()")
    if step.written:
        context.declare_path(f"{path}.mutated", step.tensor.location)
        context.require(number, f"{context.helper('items_are_distinct')}({given})")


def _section(tensor: TensorInput) -> str:
    return "inputs" if tensor.role == "input" else "params"


# Dtypes; None stands for a dtype that shape-only inference was not given


@emits(SolveDtype)
def _solve_dtype(context: Context, number: int, step: SolveDtype) -> None:
    index, given = spell("dtype", step.index), spell("type", step.tensor.name)
    kind = context.names.kind(step.index)
    context.declare(step.tensor.dtype)
    context.writer.line(f"{index} = {given}")
    if isinstance(kind, DTypeKind) and kind.names is not None:
        admitted: tuple[str | None, ...] = tuple(sorted(kind.names))
        if step.index not in context.names.shape_dtypes():
            admitted = (None, *admitted)
        context.reject(number, f"{index} not in {admitted!r}")


@emits(CheckDtype)
def _dtype(context: Context, number: int, step: CheckDtype) -> None:
    given = spell("type", step.tensor.name)
    context.declare(step.tensor.dtype)
    if isinstance(step.expr, Constant):
        context.reject(number, f"{given} not in {(None, step.expr.value)!r}")
        return
    expected = context.lowering.text(step.expr)
    context.reject(number, f"{context.helper('differ')}({given}, {expected})")


@emits(CheckCombos)
def _combos(context: Context, number: int, step: CheckCombos) -> None:
    names = list(step.rows[0].dtypes)
    context.declare_path("dtype_combos", step.rows[0].location)
    call = ", ".join(context.names.variable(name) for name in names)
    rows = tuple(tuple(row.dtypes[name] for name in names) for row in step.rows)
    context.reject(number, f"not {context.helper('is_combination')}(({call},), {rows!r})")


@emits(PlaceHeld)
def _place(context: Context, _number: int, step: PlaceHeld) -> None:
    name = step.tensor.name
    context.declare_path(f"params.{name}", step.tensor.location)
    arguments = f"faults, op, {name!r}, device, {context.lowering.text(step.dtype)}"
    context.writer.line(f"{spell('in', name)} = {context.helper('placed')}({arguments})")


# Shapes


@emits(CheckRank)
def _rank(context: Context, number: int, step: CheckRank) -> None:
    if step.open and not step.axes and not step.splices:
        return
    context.declare(step.tensor.shape)
    lengths = [f"len({context.lowering.text(splice)})" for splice in step.splices]
    count = " + ".join([*([str(step.axes)] if step.axes or not lengths else []), *lengths])
    relation = "<" if step.open else "!="
    if any(may_fail(splice, context.names) for splice in step.splices):
        context.attempt(number, f"count = {count}")
        count = "count"
    context.reject(number, f"len({spell('size', step.tensor.name)}) {relation} {count}")


@emits(SolveAxis)
def _solve_axis(context: Context, number: int, step: SolveAxis) -> None:
    index, length = context.names.variable(step.index), _axis(context, step.tensor, step.position)
    context.declare(step.tensor.shape)
    if step.offset is not None:
        length = f"{length} - {_grouped(context.lowering.text(step.offset))}"
    if step.scale != 1:
        length = _grouped(length)
        _truth(context, number, f"{length} % {step.scale}", "== 0", "!= 0")
        length = f"{length} // {step.scale}"
    context.writer.line(f"{index} = {length}")
    if step.offset is not None:
        _truth(context, number, index, ">= 0", "< 0")


@emits(SolveSplice)
def _solve_splice(context: Context, _number: int, step: SolveSplice) -> None:
    size = spell("size", step.tensor.name)
    start, stop = _count(context, step.start), _count(context, step.stop)
    context.declare(step.tensor.shape)
    until = "" if stop == "0" else f"len({size}) - {_grouped(stop)}"
    run = f"{size}[{'' if start == '0' else start}:{until}]"
    run = size if start == stop == "0" else run
    context.writer.line(f"{context.names.variable(step.index)} = {run}")


@emits(CheckAxis)
def _check_axis(context: Context, number: int, step: CheckAxis) -> None:
    context.declare(step.tensor.shape)
    expected = _expected(context, number, step.axis)
    length = _axis(context, step.tensor, step.position)
    _truth(context, number, length, f"== {expected}", f"!= {expected}")


@emits(CheckSplice)
def _check_splice(context: Context, number: int, step: CheckSplice) -> None:
    size, count = spell("size", step.tensor.name), _count(context, step.position)
    context.declare(step.tensor.shape)
    value = _expected(context, number, step.value)
    run = _run(size, step.position.side, count, f"len({value})")
    same = f"{context.helper('same_items')}({run}, {value})"
    if context.names.traced:
        context.require(number, same)
    else:
        context.reject(number, f"not {same}")


def _expected(context: Context, number: int, expr: Expr) -> str:
    """What a part of a shape must equal; an error reads it from there."""
    text = context.lowering.text(expr)
    if isinstance(expr, Name | Constant):
        return text
    if may_fail(expr, context.names):
        context.attempt(number, f"expected = {text}")
    else:
        context.writer.line(f"expected = {text}")
    return "expected"


def _run(size: str, side: str, count: str, length: str) -> str:
    """The axes of a run that has `count` axes before it, or after it."""
    if side == "left":
        return f"{size}[:{length}]" if count == "0" else f"{size}[{count}:{count} + {length}]"
    if count == "0":
        return f"{size}[len({size}) - {length}:]"
    stop = f"len({size}) - {_grouped(count)}"
    return f"{size}[{stop} - {length}:{stop}]"


def _truth(context: Context, number: int, subject: str, test: str, breach: str) -> None:
    """Demand a comparison with a tensor's length, which tracing makes symbolic."""
    if context.names.traced:
        context.require(number, f"{subject} {test}")
    else:
        context.reject(number, f"{subject} {breach}")


def _axis(context: Context, tensor: TensorInput, position: Position) -> str:
    """The length of the axis at a position."""
    size, count = spell("size", tensor.name), _count(context, position)
    if position.side == "left":
        return f"{size}[{count}]"
    if position.splices:
        return f"{size}[-1 - {_grouped(count)}]"
    return f"{size}[{-1 - position.fixed}]"


def _count(context: Context, position: Position) -> str:
    """How many axes stand before a position, or after it."""
    lengths = [f"len({context.lowering.text(splice)})" for splice in position.splices]
    fixed = [str(position.fixed)] if position.fixed or not lengths else []
    return " + ".join([*fixed, *lengths])


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def _operand(context: Context, expr: Expr) -> str:
    """An integer expression as an operand of a comparison."""
    text = context.lowering.text(expr)
    return f"({text})" if isinstance(expr, Conditional) else text


# Values


@emits(CheckRule)
def _rule(context: Context, number: int, step: CheckRule) -> None:
    context.declare(step.declaration)
    with context.where_known(step.expr):
        lowering = context.lowering
        if step.expr == Constant(False):
            context.writer.line(f"raise faults.error({number}, locals())")
            return
        context.demand(number, step.expr, lowering.text(step.expr), lowering.negated(step.expr))


@emits(ComputeLet)
def _let(context: Context, number: int, step: ComputeLet) -> None:
    context.declare(step.declaration)
    with context.where_known(step.expr):
        statement = f"{spell('let', step.name)} = {context.lowering.text(step.expr)}"
        if may_fail(step.expr, context.names):
            context.attempt(number, statement)
        else:
            context.writer.line(statement)


@emits(CheckNonNegative)
def _non_negative(context: Context, number: int, step: CheckNonNegative) -> None:
    location = context.plan.spec.locations.get(step.path, context.plan.spec.location)
    context.writer.declare(f'{bare(step.path)} "{step.text}"', location)
    if step.many:
        every = (
            f"{context.helper('all_of')}(item >= 0 for item in {context.lowering.text(step.expr)})"
        )
        context.demand(number, step.expr, every, f"not {every}")
    else:
        operand = _operand(context, step.expr)
        context.demand(number, step.expr, f"{operand} >= 0", f"{operand} < 0")
