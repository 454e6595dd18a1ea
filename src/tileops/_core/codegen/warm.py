"""What makes a warm call cheap: the kind of a call, and a test of the result that goes first.

Calls of one kind get one verdict from `check`, so that its outcome can be looked up. The test of a
result accepts what is plainly right; whatever it does not accept is judged, and worded, by the
check that follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.codegen.context import Context
from tileops._core.codegen.names import spell
from tileops._core.codegen.writer import identifier
from tileops._core.spec.model import TensorInput


def write_call_kind(context: Context) -> None:
    """Print `call_kind`, where some input that is always passed settles the call device.

    Elsewhere the current device of the accelerator may decide, which no tensor shows.
    """
    signature, writer = context.plan.spec.signature, context.writer
    inputs = tuple(signature.inputs.values())
    if not any(tensor.optional is False and not tensor.on_cpu for tensor in inputs):
        return
    doc = "What decides the outcome of `check` beside the instance."
    arguments = ["op: Any", "tensors: Mapping[str, Any]"]
    with writer.function("call_kind", arguments, "tuple[Any, ...]", doc):
        for tensor in inputs:
            writer.line(f"{spell('in', tensor.name)} = tensors[{tensor.name!r}]")
        for tensor in context.names.held():
            writer.line(f"{spell('in', tensor.name)} = op.{identifier(tensor.name)}")
        parts = list(_parts(inputs + context.names.held()))
        if context.names.has_buffer():
            writer.line("in_out = tensors.get('out')")
            parts.append(_if_there("in_out", _seen("in_out", ["stride()"])))
        writer.items("return (", parts, ",)" if len(parts) == 1 else ")")


def _parts(tensors: tuple[TensorInput, ...]) -> Iterator[str]:
    """What is seen of each tensor; its layout where the layout is checked.

    A construction-time tensor counts by identity too: one that was bound anew is to be placed anew.
    """
    for tensor in tensors:
        name = spell("in", tensor.name)
        layout = ["is_contiguous()"] if tensor.contiguous else []
        layout += ["stride()"] if tensor.mutated is not False else []
        seen = _seen(name, layout)
        if tensor.role == "param":
            seen.insert(0, f"id({name})")
        if tensor.optional is False:
            yield from seen
        else:
            yield _if_there(name, seen)


def _seen(name: str, layout: list[str]) -> list[str]:
    return [f"{name}.{aspect}" for aspect in ("shape", "dtype", "device", *layout)]


def _if_there(name: str, seen: list[str]) -> str:
    return f"({', '.join(seen)}) if {name} is not None else None"


def write_result_test(context: Context) -> None:
    """Return early where every output is a new tensor of just the promised form.

    What a target returned is judged in full.
    """
    writer, outputs = context.writer, context.plan.spec.signature.outputs
    if any(o.buffered or o.alias or o.nullable is not None for o in outputs.values()):
        return
    single = len(outputs) == 1
    tests = ["faults.target is None"]
    if not single:
        tests.append(f"type(result) is tuple and len(result) == {len(outputs)}")
    promised = context.helper("is_as_promised")
    for place, name in enumerate(outputs):
        given = "result" if single else f"result[{place}]"
        tests.append(f"{promised}(record, {name!r}, {given})")
    results = "(result,)" if single else "result"
    held = ", ".join(f"op.{identifier(tensor.name)}" for tensor in context.names.held())
    others = f"(*tensors.values(), {held})" if held else "tensors.values()"
    tests.append(f"{context.helper('own_storages')}({results}, {others})")
    with writer.block(f"if {' and '.join(tests)}"):
        writer.line("return")
