"""The function that checks a construction."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

from tileops._core.codegen.context import Context, Phase
from tileops._core.codegen.names import solved_name, spell
from tileops._core.codegen.steps import emit
from tileops._core.signature.plan import CheckHeld, CheckParam, ConstructionStep, Guard
from tileops._core.spec.model import TensorInput


def write_construction(context: Context) -> None:
    """Print `check_construction`: parameters, then tensors, then what these decide."""
    steps = list(enumerate(context.plan.construction))
    arguments = [f"faults: {context.helper('Faults')}", "op: Any"]
    doc = "Check what construction decides; return what it solves."
    result = context.helper("Constructed")
    with context.writer.function("check_construction", arguments, result, doc):
        _write_steps(context, [s for s in steps if isinstance(s[1], CheckParam)])
        _write_cases(context)
        _load_held(context)
        _write_steps(context, [s for s in steps if isinstance(s[1], CheckHeld)])
        for tensor in context.signature.held:
            measure(context, tensor)
        _write_steps(context, [s for s in steps if not isinstance(s[1], CheckParam | CheckHeld)])
        _write_result(context)


def _write_steps(context: Context, steps: list[tuple[int, ConstructionStep]]) -> None:
    for number, step in context.guards.grouped(context.writer, steps):
        emit(context, number, step)


def _write_cases(context: Context) -> None:
    """The discriminants that algebraic values give."""
    for found in context.guards.algebraic():
        arguments = f"{spell('param', found.name)}, {context.names.finite_fields(found.name)!r}"
        value = f"{context.helper('discriminant')}({arguments})"
        context.writer.line(f"{context.guards.variable(found)} = {value}")


def _load_held(context: Context) -> None:
    for tensor in context.signature.held:
        given = spell("in", tensor.name)
        context.writer.line(f"{given} = faults.attribute(op, {tensor.name!r})")
        if tensor.optional is not False:
            context.writer.line(f"{spell('has', tensor.name)} = {given} is not None")


def measure(context: Context, tensor: TensorInput) -> None:
    """Print a present tensor's shape and the name of its dtype."""
    given = spell("in", tensor.name)
    with where_present(context, tensor):
        context.writer.line(f"{spell('size', tensor.name)} = tuple({given}.shape)")
        name_of = context.helper("name_of_dtype")
        context.writer.line(f"{spell('type', tensor.name)} = {name_of}({given}.dtype)")


def where_present(context: Context, tensor: TensorInput) -> AbstractContextManager[None]:
    """A block that runs where a tensor is there; no block for a required one."""
    if tensor.optional is False:
        return nullcontext()
    return context.writer.block(f"if {spell('has', tensor.name)}")


def _write_result(context: Context) -> None:
    writer = context.writer
    write_solved(context, "construction", ())
    params = [name for name in context.signature.params if context.names.param(name)]
    writer.items(
        "parameters: dict[str, Any] = {", (f"{p!r}: {spell('param', p)}" for p in params), "}"
    )
    cases = ", ".join(
        f"{d.name!r}: {context.guards.variable(d)}" for d in context.guards.algebraic()
    )
    arguments = ["indices", "parameters", f"{{{cases}}}"]
    forms = ", ".join(f"{t.name!r}: {_form(t)}" for t in context.signature.held)
    if forms:
        arguments.append(f"{{{forms}}}")
    writer.items(f"return {context.helper('Constructed')}(", arguments, ")")


def _form(tensor: TensorInput) -> str:
    """The shape and the dtype of a tensor, None where it is absent."""
    form = f"({spell('size', tensor.name)}, {spell('type', tensor.name)})"
    return form if tensor.optional is False else f"{form} if {spell('has', tensor.name)} else None"


def write_solved(context: Context, phase: Phase, before: Iterable[str]) -> None:
    """Print `indices`: the names that a phase solves, each on the branches that solve it."""
    writer, guards = context.writer, context.guards
    sites: dict[str, list[Guard]] = {}
    for _, step in context.names.sites(phase):
        sites.setdefault(solved_name(step), []).append(step.guard)
    always = [name for name, solving in sites.items() if guards.cover(solving)]
    items = (f"{name!r}: {context.names.variable(name)}" for name in always)
    writer.items("indices: dict[str, Any] = {", [*before, *items], "}")
    later = [(g, name) for name, solving in sites.items() if name not in always for g in solving]
    for guard, members in groupby(later, lambda pair: pair[0]):
        with guards.block(writer, guard):
            for _, name in members:
                writer.line(f"indices[{name!r}] = {context.names.variable(name)}")
