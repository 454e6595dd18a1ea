"""The functions around a checked call: effect branch, result check, roofline."""

from __future__ import annotations

from collections.abc import Iterable

from tileops._core.codegen.analysis import may_fail
from tileops._core.codegen.context import Context
from tileops._core.codegen.names import spell
from tileops._core.codegen.writer import identifier
from tileops._core.lang.nodes import Expr
from tileops._core.lang.reads import reads
from tileops._core.signature.plan import Discriminant, EffectCase, Formula, Guard
from tileops._core.spec.model import Declaration, TensorOutput


def write_effects(context: Context) -> None:
    """Print `effect_branch`: reads parameters and presences, so that it can be traced."""
    writer, cases = context.writer, context.plan.effects
    arguments = [
        f"effects: tuple[{context.helper('EffectBranch')}, ...]",
        "op: Any",
        "presence: Mapping[str, bool]",
    ]
    doc = "The effect branch of a call, given which tensors are passed."
    with writer.function("effect_branch", arguments, "EffectBranch", doc):
        for found in _read(context, (case.guard for case in cases[:-1])):
            variable = spell("param" if found.source == "param" else "has", found.name)
            writer.line(f"{variable} = {_source(context, found)}")
        places = {id(case): place for place, case in enumerate(cases)}

        def write(case: EffectCase) -> None:
            writer.line(f"return effects[{places[id(case)]}]")

        context.guards.choose(writer, cases[:-1], write)
        write(cases[-1])


def _read(context: Context, guards: Iterable[Guard]) -> list[Discriminant]:
    """The discriminants that guards read, in order."""
    names = frozenset[str]().union(*map(context.guards.reads, guards))
    return [d for d in context.plan.discriminants if d.name in names]


def _source(context: Context, found: Discriminant) -> str:
    """A discriminant, from the instance and the presences."""
    attribute = f"op.{identifier(found.name)}"
    if found.source == "held":
        return f"{attribute} is not None"
    if found.source != "param":
        return f"presence[{found.name!r}]"
    if context.names.adt(found.name) is not None:
        return attribute
    return f"{context.helper('literal')}({attribute})"


def write_result_check(context: Context) -> None:
    """Print `check_result`: number, presence, identity, form, storage."""
    writer, outputs = context.writer, context.signature.outputs
    arguments = [
        f"faults: {context.helper('Faults')}",
        "op: Any",
        f"record: {context.helper('SignatureCall')}",
        "result: Any",
        "tensors: Mapping[str, Any]",
    ]
    doc = "Check what an implementation returned."
    with writer.function("check_result", arguments, "None", doc):
        if not outputs:
            writer.line(f"{context.helper('check_nothing')}(faults, result)")
            return
        values = [spell("value", name) for name in outputs]
        target = f"({values[0]},)" if len(values) == 1 else ", ".join(values)
        writer.line(f"{target} = {context.helper('returned')}(faults, record, result)")
        for output in outputs.values():
            _write_output_check(context, output)
        held = [identifier(tensor.name) for tensor in context.signature.held]
        tensors = ", ".join(f"{name!r}: op.{name}" for name in held)
        returned = ", ".join(f"{name!r}: {spell('value', name)}" for name in outputs)
        parts = ["faults", "record", f"{{{returned}}}", "tensors", f"{{{tensors}}}"]
        writer.items(f"{context.helper('check_new')}(", parts, ")")


def _write_output_check(context: Context, output: TensorOutput) -> None:
    writer, value = context.writer, spell("value", output.name)
    same = context.helper("check_identity") if output.buffered or output.alias else ""
    if output.alias is not None:
        writer.declare(f'outputs.{output.name}.alias "{output.alias}"', output.location)
        with writer.block(f"if {output.alias!r} in record.written"):
            writer.line(f"{same}(faults, {output.name!r}, {value}, tensors[{output.alias!r}])")
    if output.buffered:
        writer.declare(f'outputs.{output.name}.buffer "out"', output.location)
        with writer.block("if record.has_out"):
            writer.line(f"{same}(faults, {output.name!r}, {value}, tensors['out'])")
    context.declare(output.shape)
    check = f"{context.helper('check_output')}(faults, record, {output.name!r}, {value}"
    if output.nullable is None:
        writer.line(f"{check})")
        return
    with writer.block(f"if {value} is not None"):
        writer.line(f"{check})")


def write_roofline(context: Context) -> None:
    """Print `roofline`: the FLOPs and the bytes of a recorded call."""
    spec = context.plan.spec
    if spec.roofline is None or spec.roofline.flops is None:
        return
    writer, plan = context.writer, context.plan
    formulas = [*plan.flops, *plan.bytes]
    arguments = [
        f"faults: {context.helper('Faults')}",
        f"record: {context.helper('SignatureCall')}",
    ]
    doc = "The FLOPs of a recorded call, and the bytes it moves."
    with writer.function("roofline", arguments, "tuple[int, int]", doc):
        _load_names(context, formulas)
        _write_formula(context, "flops", spec.roofline.flops, plan.flops)
        if spec.roofline.bytes is None:
            writer.line("moved = record.derived_bytes()")
        else:
            _write_formula(context, "moved", spec.roofline.bytes, plan.bytes)
        writer.line("return flops, moved")


def _load_names(context: Context, formulas: list[Formula]) -> None:
    """Discriminants, presences, indices and parameters that formulas read."""
    writer = context.writer
    by_name = {d.name: d for d in _read(context, (formula.guard for formula in formulas))}
    found = [reads(formula.expr) for formula in formulas]
    present = set[str]().union(*(each.presences for each in found))
    given = {name for name in present if context.names.param(name) is not None}
    presences = present - given
    presences |= {d.name for d in by_name.values() if d.source != "param"}
    for name in sorted(presences):
        writer.line(f"{spell('has', name)} = record.present({name!r})")
    names = given.union(*(each.names for each in found))
    names |= {d.name for d in by_name.values() if d.source == "param"}
    if names:
        writer.line("indices = record.indices")
    for name in sorted(names):
        writer.line(f"{context.names.variable(name)} = indices.get({name!r})")


def _write_formula(
    context: Context, target: str, declared: Declaration[Expr], formulas: tuple[Formula, ...]
) -> None:
    writer = context.writer

    def write(formula: Formula) -> None:
        writer.line(f"{target} = {context.lowering.text(formula.expr)}")

    context.declare(declared)
    if not any(may_fail(formula.expr, context.names) for formula in formulas):
        context.guards.choose(writer, formulas, write)
    else:
        with writer.block("try"):
            context.guards.choose(writer, formulas, write)
        with writer.block(f"except {context.helper('EVALUATION_FAULTS')} as reason"):
            writer.line(f"raise faults.formula({declared.path!r}, record, reason) from reason")
    writer.line(f"faults.count({declared.path!r}, record, {target})")
