"""The function that checks a call, and infers the shapes of its outputs alone."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import groupby

from tileops._core.codegen.analysis import may_fail
from tileops._core.codegen.construction import measure, where_present, write_solved
from tileops._core.codegen.context import Context
from tileops._core.codegen.names import spell
from tileops._core.codegen.steps import emit, emits
from tileops._core.signature.plan import (
    CallStep,
    CheckAxis,
    CheckLayout,
    CheckOut,
    CheckPassed,
    CheckRank,
    CheckSplice,
    OutputForm,
    PlaceHeld,
    SettleDevices,
)
from tileops._core.spec.model import Location, TensorInput

_OF_TENSORS = (SettleDevices, CheckLayout, PlaceHeld)
"""Steps that shape-only inference leaves out."""


def write_call(context: Context) -> None:
    """Print `check`: the call steps in their order, then the record."""
    writer, steps = context.writer, list(enumerate(context.plan.call))
    arguments = [
        f"faults: {context.helper('Faults')}",
        f"branches: {context.helper('Branches')}",
        "op: Any",
        "tensors: Mapping[str, Any]",
        "*",
        "shapes_only: bool = False",
    ]
    doc = "Check a call and describe it; or, of shapes, only infer those of the outputs."
    with writer.function("check", arguments, "Any", doc):
        writer.line("known = op._construction_indices")
        mark = writer.mark()
        _load_tensors(context)
        _write_steps(context, [s for s in steps if isinstance(s[1], CheckPassed)])
        for tensor in context.signature.inputs.values():
            measure(context, tensor)
        _measure_compared(context)
        _write_steps(context, [s for s in steps if not isinstance(s[1], CheckPassed | CheckOut)])
        _write_outputs(context)
        _write_steps(context, [s for s in steps if isinstance(s[1], CheckOut)])
        _write_record(context)
        writer.insert(mark, _constants(context, mark))


def _load_tensors(context: Context) -> None:
    writer = context.writer
    for tensor in context.signature.inputs.values():
        given = spell("in", tensor.name)
        writer.line(f"{given} = tensors[{tensor.name!r}]")
        if tensor.optional is not False:
            writer.line(f"{spell('has', tensor.name)} = {given} is not None")
    for tensor in context.signature.held:
        given = spell("in", tensor.name)
        writer.line(f"{given} = {context.helper('held')}(faults, op, {tensor.name!r})")
        if tensor.optional is not False:
            writer.line(f"{spell('has', tensor.name)} = {given} is not None")
    if context.signature.has_buffer:
        writer.line("in_out = tensors.get('out')")
        writer.line("has_out = in_out is not None")


def _write_steps(context: Context, steps: list[tuple[int, CallStep]]) -> None:
    """The steps in order; those that need tensors under one condition as far as they adjoin."""
    for of_tensors, members in groupby(steps, lambda step: isinstance(step[1], _OF_TENSORS)):
        with context.writer.block("if not shapes_only") if of_tensors else nullcontext():
            for number, step in context.guards.grouped(context.writer, members):
                emit(context, number, step)


def _measure_compared(context: Context) -> None:
    """The shapes of construction-time tensors of which axes are left to compare."""
    compared = {
        step.tensor.name
        for step in context.plan.call
        if isinstance(step, CheckRank | CheckAxis | CheckSplice) and step.tensor.role == "param"
    }
    for tensor in context.signature.held:
        if tensor.name in compared:
            with where_present(context, tensor):
                given = spell("in", tensor.name)
                context.writer.line(f"{spell('size', tensor.name)} = tuple({given}.shape)")


@emits(SettleDevices)
def _devices(context: Context, number: int, _step: SettleDevices) -> None:
    signature, writer = context.signature, context.writer
    context.declare_path("inputs", _inputs_location(context))
    fixed = [t for t in signature.inputs.values() if t.on_cpu]
    if fixed:
        context.reject(number, f"not {context.helper('on_cpu')}({_listed(fixed)})")
    moving = _listed(t for t in signature.inputs.values() if not t.on_cpu)
    held = _listed(t for t in context.signature.held if not t.on_cpu)
    param = spell("param", "device") if context.names.param("device") else "None"
    writer.items(f"device = {context.helper('call_device')}(", [moving, param, held], ")")
    context.reject(number, f"device is {context.helper('CONFLICT')}")


def _listed(tensors: Iterable[TensorInput]) -> str:
    """A tuple of tensors."""
    names = [spell("in", tensor.name) for tensor in tensors]
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _inputs_location(context: Context) -> Location:
    """Where the inputs stand, or the spec itself."""
    return context.plan.spec.locations.get("signature.inputs", context.plan.spec.location)


@emits(CheckOut)
def _out(context: Context, number: int, step: CheckOut) -> None:
    output, writer = context.signature.outputs[step.output], context.writer
    context.declare_path(f'outputs.{output.name}.buffer "out"', output.location)
    if step.absent:
        writer.line(f"raise faults.error({number}, locals())")
        return
    context.reject(number, f"not {context.helper('is_tensor')}(in_out)")
    same = context.helper("same_items")
    wanted = f"outputs[{output.name!r}]"
    context.require(number, f"{same}(tuple(in_out.shape), {wanted}[0])")
    tensors = [*context.signature.inputs, *(t.name for t in context.signature.held)]
    others = ", ".join(f"{name!r}: {spell('in', name)}" for name in tensors)
    arguments = ["in_out", f"{wanted}[1]", "device", repr(output.contiguous), f"{{{others}}}"]
    writer.items(f"misfit = {context.helper('buffer_misfit')}(", arguments, ")")
    with writer.block("if misfit is not None"):
        writer.line(f"raise faults.error({number}, locals(), misfit)")


def _write_outputs(context: Context) -> None:
    """The shape and the dtype of each output that is present."""
    writer = context.writer
    writer.line("outputs: dict[str, Any] = {}")
    for name, output in context.signature.outputs.items():
        context.declare(output.shape)
        forms = [form for form in context.plan.outputs if form.name == name]
        if not any(_form_may_fail(context, form) for form in forms):
            context.guards.choose(writer, forms, partial(_write_form, context))
            continue
        with writer.block("try"):
            context.guards.choose(writer, forms, partial(_write_form, context))
        with writer.block(f"except {context.helper('EVALUATION_FAULTS')} as reason"):
            writer.line(f"raise faults.inference({name!r}, locals(), reason) from reason")
    with writer.block("if shapes_only"):
        writer.line("return outputs")


def _form_may_fail(context: Context, form: OutputForm) -> bool:
    return any(may_fail(part, context.names) for part in form.parts)


def _write_form(context: Context, form: OutputForm) -> None:
    shape, dtype = context.lowering.tuple_of(form.axes), context.lowering.text(form.dtype)
    context.writer.line(f"outputs[{form.name!r}] = ({shape}, {dtype})")


def _write_record(context: Context) -> None:
    writer, discriminants = context.writer, context.plan.discriminants
    _write_described(context)
    write_solved(context, "call", ("**known.indices",))
    values = [context.guards.value(d) for d in discriminants]
    writer.items("branch = branches[(", values, ",)]" if len(values) == 1 else ")]")
    facts = f"{context.helper('CallFacts')}(branch, device, indices, described)"
    metadata = ", metadata" if _write_metadata(context) else ""
    writer.line(f"return {context.helper('SignatureCall')}({facts}{metadata})")


def _write_described(context: Context) -> None:
    """The shape and the dtype of every tensor that is present."""
    writer, signature = context.writer, context.signature
    fixed = [tensor for tensor in signature.inputs.values() if tensor.optional is False]
    items = (f"{t.name!r}: ({spell('size', t.name)}, {spell('type', t.name)})" for t in fixed)
    writer.items("described: dict[str, Any] = {", items, "}")
    for tensor in signature.inputs.values():
        if tensor not in fixed:
            name = tensor.name
            with where_present(context, tensor):
                pair = f"({spell('size', name)}, {spell('type', name)})"
                writer.line(f"described[{name!r}] = {pair}")
    for tensor in context.signature.held:
        with where_present(context, tensor):
            described = f"{context.helper('described_as')}({spell('in', tensor.name)})"
            writer.line(f"described[{tensor.name!r}] = {described}")
    writer.line("described.update(outputs)")


def _write_metadata(context: Context) -> bool:
    """References to the tensors whose contents a roofline may ask for."""
    signature = context.signature
    tensors = [*signature.inputs.values(), *context.signature.held]
    found = [tensor for tensor in tensors if tensor.values is not None]
    if found:
        items = ", ".join(f"{t.name!r}: {spell('in', t.name)}" for t in found)
        context.writer.line(f"metadata = {{{items}}}")
    return bool(found)


def _constants(context: Context, mark: int) -> Iterator[str]:
    """Lines that load what construction fixed, as far as the lines from `mark` on read it."""
    body = ast.parse(textwrap.dedent("\n".join(context.writer.lines(mark))))
    loaded = {
        node.id
        for node in ast.walk(body)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for name in context.signature.params:
        if context.names.param(name) and spell("param", name) in loaded:
            yield f"    {spell('param', name)} = known.parameters[{name!r}]"
    for found in context.guards.algebraic():
        if context.guards.variable(found) in loaded:
            yield f"    {context.guards.variable(found)} = known.cases[{found.name!r}]"
    for name, is_certain in context.names.solved_at_construction().items():
        if context.names.variable(name) in loaded:
            read = f"known[{name!r}]" if is_certain else f"known.get({name!r})"
            yield f"    {context.names.variable(name)} = {read}"
