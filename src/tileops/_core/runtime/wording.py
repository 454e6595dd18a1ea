"""What each kind of step says when it fails: the declaration at fault, and fault and value.

One function per kind; each returns a `Fault` and reads nothing but the plan and what was known.
Actual values are printed as `repr`, shapes as tuples, dtypes by name; contents never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch

from tileops._core.codegen.context import bare
from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.nodes import Expr, Sequence
from tileops._core.lang.printer import to_text
from tileops._core.lang.reads import reads
from tileops._core.lang.values import read_field, shown, shown_with_type
from tileops._core.runtime.known import Known, axes, section
from tileops._core.runtime.tensors import is_tensor, unusual
from tileops._core.signature.plan import (
    CheckAxis,
    CheckCombos,
    CheckDtype,
    CheckHeld,
    CheckLayout,
    CheckNonNegative,
    CheckOut,
    CheckPassed,
    CheckRank,
    CheckRule,
    CheckSplice,
    ComputeLet,
    SettleDevices,
    SolveAxis,
    SolveDtype,
)
from tileops._core.spec.model import Declaration, Location, TensorInput
from tileops.errors import SignatureError, SignatureTypeError


class Fault(NamedTuple):
    """A failed check: where it is declared, in which words it fails, and as which error."""

    path: str
    text: str | None
    fault: str
    location: Location
    error: type[SignatureError] = SignatureError


Reason = BaseException | str | None
S = TypeVar("S")
_WORDINGS: dict[type, Callable[[Any, Known, Reason], Fault]] = {}


def fault_of(step: object, known: Known, reason: Reason) -> Fault:
    """The fault of a step that failed; `reason` is what an evaluation raised, or a hint."""
    return _WORDINGS[type(step)](step, known, reason)


def words(
    kind: type[S],
) -> Callable[[Callable[[S, Known, Reason], Fault]], Callable[[S, Known, Reason], Fault]]:
    """Make a function the wording of a kind of step."""

    def register(
        function: Callable[[S, Known, Reason], Fault],
    ) -> Callable[[S, Known, Reason], Fault]:
        _WORDINGS[kind] = function
        return function

    return register


def _declared(
    declaration: Declaration[Any], fault: str, error: type[SignatureError] = SignatureError
) -> Fault:
    return Fault(bare(declaration.path), declaration.text, fault, declaration.location, error)


def _of_tensor(
    tensor: TensorInput, key: str, text: str | None, fault: str,
    error: type[SignatureError] = SignatureError,
) -> Fault:  # fmt: skip
    path = f"{section(tensor)}.{tensor.name}{key}"
    return Fault(path, text, fault, tensor.location, error)


def fault_of_output(known: Known, name: str, reason: BaseException) -> str:
    """What went wrong while an output's shape was inferred."""
    return _evaluation(Sequence(known.output_form(name).parts), known, reason)


# Presence, devices, layouts


@words(CheckHeld)
def _held(step: CheckHeld, known: Known, reason: Reason) -> Fault:
    del reason
    tensor, given = step.tensor, known.tensor(step.tensor.name)
    fault = _presence(tensor, step.condition, known)
    if fault is not None:
        return fault
    if tensor.contiguous and not given.is_contiguous():
        return _not_contiguous(tensor, given)
    return _of_tensor(tensor, ".device", "cpu", f"expected cpu, got {given.device}")


@words(CheckPassed)
def _passed(step: CheckPassed, known: Known, reason: Reason) -> Fault:
    del reason
    fault = _presence(step.tensor, step.condition, known)
    assert fault is not None
    return fault


def _presence(tensor: TensorInput, condition: Expr | None, known: Known) -> Fault | None:
    """Why a tensor must or must not be there, or what was passed in its place."""
    given = known.tensor(tensor.name)
    declared = tensor.optional
    if given is None and tensor.optional is False:
        fault = "required, got None"
        return _of_tensor(tensor, "", None, fault, SignatureTypeError)
    if given is not None and not is_tensor(given):
        fault = f"expected a tensor, got {shown_with_type(given)}"
        return _of_tensor(tensor, "", None, fault, SignatureTypeError)
    strange = unusual(given) if isinstance(given, torch.Tensor) else None
    if strange is not None:
        return _of_tensor(tensor, "", None, strange)
    if condition is None or not isinstance(declared, Declaration) or declared.node is None:
        return None
    if evaluate(condition, known) is (given is not None):
        return None
    if given is None:
        passed = f"{tensor.name} was not passed"
    else:
        passed = f"{tensor.name} was passed (shape {shown(tuple(given.shape))})"
    return _declared(
        declared, f"{passed} but {_condition(declared.node, given is not None, known)}"
    )


def _condition(condition: Expr, is_passed: bool, known: Known) -> str:
    """The facts that a presence condition reads, set against a tensor that was passed or not."""
    facts = []
    for name in reads(condition).presences:
        there = known.present(name)
        same = " too" if there else " either"
        facts.append(f"{name} was{'' if there else ' not'}{same if there == is_passed else ''}")
    return ", ".join([*facts, *_values(condition, known)])


@words(SettleDevices)
def _devices(step: SettleDevices, known: Known, reason: Reason) -> Fault:
    del step, reason
    signature = known.plan.spec.signature
    for tensor in signature.inputs.values():
        given = known.tensor(tensor.name)
        if tensor.on_cpu and given is not None and given.device.type != "cpu":
            return _of_tensor(tensor, ".device", "cpu", f"expected cpu, got {given.device}")
    inputs = [t for t in signature.inputs.values() if not t.on_cpu]
    held = [t for t in signature.held if not t.on_cpu]
    deciding = inputs if any(known.tensor(t.name) is not None for t in inputs) else held
    given = {t.name: known.tensor(t.name) for t in deciding}
    listed = ", ".join(f"{t.device} ({name})" for name, t in given.items() if t is not None)
    path = section(deciding[0])
    location = known.plan.spec.locations.get(f"signature.{path}", known.plan.spec.location)
    return Fault(path, None, f"expected one device, got {listed}", location)


@words(CheckLayout)
def _layout(step: CheckLayout, known: Known, reason: Reason) -> Fault:
    del reason
    given = known.tensor(step.tensor.name)
    if step.contiguous and not given.is_contiguous():
        return _not_contiguous(step.tensor, given)
    fault = f"is written but overlaps itself, got {_laid_out(given)}"
    declared = step.tensor.mutated
    if isinstance(declared, Declaration):
        return _declared(declared, fault)
    return _of_tensor(step.tensor, ".mutated", "true", fault)


def _not_contiguous(tensor: TensorInput, given: Any) -> Fault:
    fault = f"expected a contiguous tensor, got {_laid_out(given)}"
    return _of_tensor(tensor, ".contiguous", "true", fault)


def _laid_out(tensor: Any) -> str:
    return f"shape {shown(tuple(tensor.shape))} with strides {shown(tuple(tensor.stride()))}"


@words(CheckOut)
def _out(step: CheckOut, known: Known, reason: Reason) -> Fault:
    output = known.plan.spec.signature.outputs[step.output]
    path, given = f"outputs.{output.name}.buffer", known.tensor("out")

    def fault(text: str, error: type[SignatureError] = SignatureError) -> Fault:
        return Fault(path, "out", text, output.location, error)

    if step.absent:
        return fault("out was passed but the output is absent")
    if not is_tensor(given):
        return fault(f"expected a tensor, got {shown_with_type(given)}", SignatureTypeError)
    if reason:
        return fault(str(reason))
    shape, dtype = known.output(output.name)
    actual = f"{shown(known.shape('out'))} {known.dtype('out')}"
    return fault(f"expected shape {shown(shape)} {dtype}, got {actual}")


# Dtypes


@words(SolveDtype)
def _solve_dtype(step: SolveDtype, known: Known, reason: Reason) -> Fault:
    del reason
    declared, actual = step.tensor.dtype, known.dtype(step.tensor.name)
    if actual is None:
        fault = "needed to infer the shapes, give it in `dtypes`"
        return _declared(declared, fault, SignatureTypeError)
    kind = known.plan.spec.signature.forall[step.index].declaration.text
    admitted = kind.partition("[")[2].rpartition("]")[0].strip()
    return _declared(declared, f"{actual} is not in {step.index} = {admitted}")


@words(CheckDtype)
def _dtype(step: CheckDtype, known: Known, reason: Reason) -> Fault:
    del reason
    expected = known.evaluated(step.expr)
    fault = f"expected {expected}, got {known.dtype(step.tensor.name)}"
    return _declared(step.tensor.dtype, fault + _where(step.expr, known))


@words(CheckCombos)
def _combos(step: CheckCombos, known: Known, reason: Reason) -> Fault:
    del reason
    names = step.rows[0].dtypes
    actual = ", ".join(f"{name}={known.value(name)}" for name in names)
    rows = "; ".join(", ".join(row.dtypes.values()) for row in step.rows)
    fault = f"{actual} is none of the combinations of ({', '.join(names)}): {rows}"
    return Fault("dtype_combos", None, fault, step.rows[0].location)


# Shapes


@words(CheckRank)
def _rank(step: CheckRank, known: Known, reason: Reason) -> Fault:
    if reason is not None:
        return _declared(step.tensor.shape, _evaluation(Sequence(step.splices), known, reason))
    count = step.axes + sum(map(known.length, step.splices))
    least = "at least " if step.open else ""
    noun = "axis" if count == 1 else "axes"
    fault = f"expected {least}{count} {noun}, got shape {shown(known.shape(step.tensor.name))}"
    origins = _where_all(step.splices, known, known.deciding(step))
    return _declared(step.tensor.shape, fault + origins + _fitting(step, known))


def _fitting(step: CheckRank, known: Known) -> str:
    """The choices of a parameter by which a tensor would have as many axes as it has."""
    rank = len(known.shape(step.tensor.name))
    facts = [
        f"{name}={shown(value)}"
        for name, value, other in known.ranks_elsewhere(step)
        if not other.splices and (rank >= other.axes if other.open else rank == other.axes)
    ]
    return _listed("; that many are expected with ", list(dict.fromkeys(facts)))


@words(SolveAxis)
def _solve_axis(step: SolveAxis, known: Known, reason: Reason) -> Fault:
    del reason
    where = known.axis(step.tensor, step.position)
    length = known.shape(step.tensor.name)[where]
    fault = f"axis {where} has length {shown(length)}, which no integer {step.index} >= 0 satisfies"
    offset = () if step.offset is None else (step.offset,)
    return _declared(step.tensor.shape, fault + _where_all(offset, known, known.deciding(step)))


@words(CheckAxis)
def _check_axis(step: CheckAxis, known: Known, reason: Reason) -> Fault:
    if reason is not None:
        return _declared(step.tensor.shape, _evaluation(step.axis, known, reason))
    where = known.axis(step.tensor, step.position)
    length, expected = known.shape(step.tensor.name)[where], known.expected(step.axis)
    fault = f"axis {where} has length {shown(length)}, expected {shown(expected)}"
    origins = _where_all((step.axis,), known, known.deciding(step))
    return _declared(step.tensor.shape, fault + origins)


@words(CheckSplice)
def _check_splice(step: CheckSplice, known: Known, reason: Reason) -> Fault:
    if reason is not None:
        return _declared(step.tensor.shape, _evaluation(step.value, known, reason))
    shape, expected = known.shape(step.tensor.name), known.expected(step.value)
    count, length = known.count(step.position), len(expected)
    start = count if step.position.side == "left" else len(shape) - count - length
    actual, wanted = tuple(shape[start : start + length]), tuple(expected)
    if length == 1:
        found = f"has length {shown(actual[0])}, expected {shown(wanted[0])}"
    else:
        found = f"have lengths {shown(actual)}, expected {shown(wanted)}"
    fault = f"{axes(start, start + length)} {found}"
    origins = _where_all((step.value,), known, known.deciding(step))
    return _declared(step.tensor.shape, fault + origins)


# Values


@words(CheckRule)
def _rule(step: CheckRule, known: Known, reason: Reason) -> Fault:
    declared = step.declaration
    if reason is not None:
        return _declared(declared, _evaluation(step.expr, known, reason))
    node = step.expr if declared.node is None else declared.node
    trees = list(known.behind(node))
    values = [fact for tree in trees for fact in _values(tree, known)]
    facts = dict.fromkeys([*values, *(f for tree in trees for f in _presence_facts(tree, known))])
    return _declared(declared, f"does not hold{': ' if facts else ''}{', '.join(facts)}")


@words(ComputeLet)
def _let(step: ComputeLet, known: Known, reason: Reason) -> Fault:
    return _declared(step.declaration, _evaluation(step.expr, known, reason))


@words(CheckNonNegative)
def _non_negative(step: CheckNonNegative, known: Known, reason: Reason) -> Fault:
    location = known.plan.spec.locations.get(step.path, known.plan.spec.location)
    if reason is not None:
        fault = _evaluation(step.expr, known, reason)
    else:
        what = "a length" if step.many else "the length"
        value = known.evaluated(step.expr)
        fault = f"{what} would be negative: {to_text(step.expr)} is {shown(value)}"
        fault += _listed(", where ", _values(step.expr, known))
    return Fault(bare(step.path), step.text, fault, location)


def _evaluation(expr: Expr, known: Known, reason: Reason) -> str:
    """What an evaluation raised, in the words of the language where it can be repeated."""
    text = str(reason) or type(reason).__name__
    if not known.reads_symbols(expr):
        try:
            evaluate(expr, known)
        except EvaluationFault as fault:
            text = str(fault)
    values = [] if "=" in text else _values(expr, known)
    return f"{text} ({', '.join(values)})" if values else text


def _values(expr: Expr, known: Known) -> list[str]:
    """The values of the names and fields that an expression reads."""
    read = reads(expr)
    owners = {field.name for field in read.fields}
    facts = [
        f"{name}={known.shown(name)}"
        for name in read.names
        if name not in owners and known.value(name) is not None
    ]
    for owner, field, _ in read.fields:
        value = known.value(owner)
        if hasattr(value, field):
            facts.append(f"{owner}.{field}={shown(read_field(value, field))}")
    return facts


def _presence_facts(expr: Expr, known: Known) -> list[str]:
    """Which of the things whose presence an expression reads are absent, and which are there."""
    names = [name for name in reads(expr).presences if known.settles(name)]
    absent = [name for name in names if not known.present(name)]
    there = [name for name in names if known.present(name)]
    facts = ((absent, "absent"), (there, "present"))
    return [f"{_enumerated(which)} {state}" for which, state in facts if which]


def _enumerated(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    together = "both" if len(names) == 2 else "all"
    return f"{', '.join(names[:-1])} and {names[-1]} are {together}"


def _where(expr: Expr, known: Known) -> str:
    return _where_all((expr,), known)


def _where_all(exprs: Iterable[Expr], known: Known, deciding: Iterable[str] = ()) -> str:
    """The values of solved names, and of parameters that decide; each with where it came from."""
    names = dict.fromkeys([*(name for expr in exprs for name in reads(expr).names), *deciding])
    facts: list[str] = []
    for name in names:
        origin = known.origin(name)
        if origin is not None:
            verb = "comes from" if not facts else "from"
            facts.append(f"{name}={known.shown(name)} {verb} {origin}")
    return _listed(", where ", facts)


def _listed(lead: str, facts: list[str]) -> str:
    return f"{lead}{', '.join(facts)}" if facts else ""
