"""Inputs, construction-time tensors and outputs: keys, value forms and effect declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tileops._core.lang.nodes import Expr, Shape
from tileops._core.spec.declarations import expression, missing, shape
from tileops._core.spec.entries import Entry, Reading
from tileops._core.spec.model import Declaration, TensorInput, TensorOutput

_SHARED = ("dtype", "shape", "optional", "contiguous", "device", "values", "requires")
INPUT_KEYS = (*_SHARED, "mutated", "write_only")
HELD_KEYS = (*_SHARED, "kw_only")
OUTPUT_KEYS = ("dtype", "shape", "contiguous", "nullable", "buffer", "alias")


def read_input(entry: Entry, role: Literal["input", "param"]) -> TensorInput:
    """A call-time tensor (`role` "input") or a construction-time tensor (`role` "param")."""
    if role == "input":
        fields = entry.fields(11, INPUT_KEYS, "an input")
    else:
        fields = entry.fields(11, HELD_KEYS, "a construction-time tensor")
    mutated = _condition(fields.get("mutated"))
    return TensorInput(
        name=entry.name,
        role=role,
        dtype=_text(entry, fields, "dtype"),
        shape=_shape(entry, fields),
        optional=_condition(fields.get("optional")),
        mutated=mutated,
        write_only=_write_only(fields.get("write_only"), mutated),
        contiguous=_flag(fields.get("contiguous")),
        on_cpu=_on_cpu(fields.get("device")),
        values=expression(fields["values"], 11) if "values" in fields else None,
        requires=_requires(fields.get("requires"), "values" in fields),
        kw_only=_flag(fields.get("kw_only")),
        location=entry.location,
    )


def read_output(entry: Entry) -> TensorOutput:
    """A result."""
    fields = entry.fields(11, OUTPUT_KEYS, "an output")
    return TensorOutput(
        name=entry.name,
        dtype=_text(entry, fields, "dtype"),
        shape=_shape(entry, fields),
        contiguous=_flag(fields.get("contiguous")),
        nullable=_nullable(fields.get("nullable")),
        buffered=_buffered(fields.get("buffer")),
        alias=fields["alias"].text(11, "the name of an input") if "alias" in fields else None,
        location=entry.location,
    )


def check_input_order(inputs: Mapping[str, TensorInput], reading: Reading) -> None:
    """Inputs that may be omitted come last."""
    first_optional = None
    for name, tensor in inputs.items():
        path = f"signature.inputs.{name}"
        if reading.is_unknown(path) or reading.is_unknown(f"{path}.optional"):
            continue
        if tensor.optional is not False:
            first_optional = first_optional or name
        elif first_optional is not None:
            reading.error(11, path, f"a required input after the optional {first_optional!r}")


def check_effects(
    inputs: Mapping[str, TensorInput], outputs: Mapping[str, TensorOutput], reading: Reading
) -> None:
    """What `alias` and `buffer` may say, as far as form goes."""
    buffered = [name for name, output in outputs.items() if output.buffered]
    for name in buffered[1:]:
        reading.error(
            22,
            f"signature.outputs.{name}.buffer",
            f"one output at most may be the buffer, {buffered[0]!r} is one",
        )
    aliased: dict[str, str] = {}
    for name, output in outputs.items():
        if output.alias is not None:
            _check_alias(output, inputs, aliased, reading)
            aliased.setdefault(output.alias, name)


def _check_alias(
    output: TensorOutput,
    inputs: Mapping[str, TensorInput],
    aliased: Mapping[str, str],
    reading: Reading,
) -> None:
    path = f"signature.outputs.{output.name}.alias"
    target = output.alias or ""
    if output.buffered:
        reading.error(22, path, "an output is either an alias or the buffer")
    if target in aliased:
        reading.error(22, path, f"input {target!r} is the alias of output {aliased[target]!r}")
    unread = "signature.inputs", f"signature.inputs.{target}", f"signature.inputs.{target}.mutated"
    if any(reading.is_unknown(name) for name in unread):
        return
    if target not in inputs:
        reading.error(22, path, f"{target!r} is not a written input: no input has that name")
    elif inputs[target].mutated is False:
        reading.error(22, path, f"{target!r} is not a written input: it is never mutated")


def _text(entry: Entry, fields: Mapping[str, Entry], key: str) -> Declaration[Expr]:
    if key in fields:
        return expression(fields[key], 11)
    return missing(entry, key, 11)


def _shape(entry: Entry, fields: Mapping[str, Entry]) -> Declaration[Shape]:
    if "shape" in fields:
        return shape(fields["shape"], 11)
    return missing(entry, "shape", 11)


def _flag(entry: Entry | None) -> bool:
    return bool(entry and entry.flag(11))


def _condition(entry: Entry | None) -> bool | Declaration[Expr]:
    """A literal boolean, or a condition."""
    if entry is None or isinstance(entry.value, bool):
        return bool(entry and entry.value)
    return expression(entry, 11)


def _write_only(entry: Entry | None, mutated: bool | Declaration[Expr]) -> bool:
    flag = _flag(entry)
    if entry and flag and mutated is not True:
        entry.error(22, "needs `mutated: true`")
    return flag


def _on_cpu(entry: Entry | None) -> bool:
    if entry is not None and entry.value != "cpu":
        entry.expected(11, "cpu")
    return entry is not None


def _requires(entry: Entry | None, has_values: bool) -> tuple[Declaration[Expr], ...]:
    if entry is None:
        return ()
    if not has_values:
        entry.error(11, "needs `values`, which gives the contents")
    return tuple(expression(item, 11) for item in entry.items(11))


def _nullable(entry: Entry | None) -> Declaration[Expr] | None:
    return None if entry is None else expression(entry, 11)


def _buffered(entry: Entry | None) -> bool:
    if entry is not None and entry.value != "out":
        entry.expected(11, "out")
    return entry is not None and entry.value == "out"
