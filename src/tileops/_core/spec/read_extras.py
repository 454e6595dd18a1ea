"""The `roofline`, `composition` and `backward` sections."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import Bytes, Expr
from tileops._core.lang.walk import walk
from tileops._core.spec.declarations import expression_or_integer, missing
from tileops._core.spec.entries import Entry
from tileops._core.spec.model import (
    Backward,
    Declaration,
    Roofline,
    Signature,
    Stage,
    TensorInput,
)
from tileops._core.spec.names import is_dotted, name_fault
from tileops._core.spec.source import Source

_GRADIENT = re.compile(r"grad\(\s*(\w+)\s*\)")


def read_roofline(entry: Entry | None, signature: Signature, source: Source) -> Roofline | None:
    """Inline formulas, or the path of a function."""
    if entry is None:
        return None
    fields = entry.fields(23, ("flops", "bytes", "func"), "a roofline")
    if "func" in fields and len(fields) > 1:
        entry.error(23, "one form only: `func`, or `flops` with `bytes`")
    elif "func" not in fields and "flops" not in fields:
        entry.error(23, "needs `flops`, or `func`")
    flops, size = (_formula(fields.get(key), signature) for key in ("flops", "bytes"))
    func = _read_func(fields.get("func"), source)
    return Roofline(flops, size, func, entry.location)


def _formula(entry: Entry | None, signature: Signature) -> Declaration[Expr] | None:
    """A formula, whose `bytes(…)` name tensors."""
    if entry is None:
        return None
    declared = expression_or_integer(entry, 23)
    sections = ("signature", "signature.inputs", "signature.outputs", "signature.params")
    if declared.node is None or any(map(entry.reading.is_unknown, sections)):
        return declared
    for node in walk(declared.node):
        if isinstance(node, Bytes) and not _is_tensor(node.name, signature):
            entry.error(23, f"bytes({node.name}) names no tensor")
    return declared


def _is_tensor(name: str, signature: Signature) -> bool:
    held = isinstance(signature.params.get(name), TensorInput)
    return held or name in signature.inputs or name in signature.outputs


def _read_func(entry: Entry | None, source: Source) -> str | None:
    if entry is None:
        return None
    path = entry.value
    if not is_dotted(path, 2):
        entry.expected(23, "the dotted path of a function")
        return None
    if source.in_tree:
        stem = f"tileops.{source.folder_family}.roofline."
        if not path.startswith(stem) or path.count(".") != 3:
            entry.error(23, f"in tree the path is {stem}<name>, got {path!r}")
    elif not source.may_name(path):
        entry.error(23, source.refuse(path))
    return str(path)


def read_composition(entry: Entry | None) -> tuple[Stage, ...] | None:
    """The stages of a composite; None when there is no such section."""
    if entry is None:
        return None
    fields = entry.fields(24, ("kind", "stages"), "a composition")
    if "kind" not in fields:
        missing(entry, "kind", 24)
    elif fields["kind"].value != "composite":
        fields["kind"].expected(24, "composite")
    if "stages" not in fields:
        missing(entry, "stages", 24)
        return ()
    stages: list[Stage] = []
    for item in fields["stages"].items(24):
        stage = _read_stage(item, {stage.name for stage in stages})
        if stage is not None:
            stages.append(stage)
    if fields["stages"].value == []:
        fields["stages"].error(24, "expected at least one stage")
    return tuple(stages)


def _read_stage(entry: Entry, taken: set[str]) -> Stage | None:
    fields = entry.fields(24, ("name", "op", "kernel", "optional"), "a stage")
    if not isinstance(entry.value, dict):
        return None
    if ("op" in fields) == ("kernel" in fields):
        entry.error(24, "a stage has exactly one of 'op' and 'kernel'")
    if "name" not in fields:
        missing(entry, "name", 24)
    name = fields["name"].text(24, "an identifier") if "name" in fields else None
    if name is not None and (fault := name_fault(name)):
        fields["name"].error(24, fault)
    if name in taken:
        fields["name"].error(24, f"{name!r} is the name of an earlier stage")
    return Stage(
        name=name or "",
        op=fields["op"].text(24, "the name of an op") if "op" in fields else None,
        kernel=fields["kernel"].text(24, "a key of kernel_types") if "kernel" in fields else None,
        optional=bool("optional" in fields and fields["optional"].flag(24)),
        location=entry.location,
    )


def read_backward(
    entry: Entry | None, signature: Signature, has_composition: bool
) -> Backward | None:
    """The op that computes gradients."""
    if entry is None:
        return None
    fields = entry.fields(24, ("op", "inputs", "outputs"), "a backward")
    for key in ("op", "inputs", "outputs"):
        if key not in fields:
            missing(entry, key, 24)
    if has_composition:
        entry.error(24, "an op with a composition declares no backward")
    written = [name for name, tensor in signature.inputs.items() if tensor.mutated is not False]
    if written:
        entry.error(24, f"an op that mutates an input ({written[0]!r}) declares no backward")
    op = fields["op"].text(24, "the name of an op") if "op" in fields else None
    sources = _Sources(signature)
    inputs = sources.of_inputs(fields["inputs"]) if "inputs" in fields else {}
    outputs = sources.of_outputs(fields["outputs"]) if "outputs" in fields else {}
    return None if op is None else Backward(op, inputs, outputs, entry.location)


@dataclass(frozen=True)
class _Sources:
    """What the inputs and outputs of a backward op may be connected to."""

    signature: Signature

    def of_inputs(self, entry: Entry) -> Mapping[str, str]:
        """Each is an input, an output or the gradient of an output of this op."""
        found: dict[str, str] = {}
        for name, item in entry.mapping(24).items():
            text = item.text(24, "an input, an output or grad(<output>)")
            if text is None:
                continue
            gradient = _GRADIENT.fullmatch(text.strip())
            if gradient and gradient[1] not in self.signature.outputs:
                item.error(24, f"{gradient[1]!r} is no output")
            elif not gradient and not self._is_tensor(text):
                item.error(24, f"{text!r} is no input, output or grad(<output>)")
            found[name] = f"grad({gradient[1]})" if gradient else text
        return found

    def of_outputs(self, entry: Entry) -> Mapping[str, str]:
        """Each is the input of this op whose gradient it is."""
        found: dict[str, str] = {}
        for name, item in entry.mapping(24).items():
            text = item.text(24, "the name of an input")
            if text is None:
                continue
            if text not in self.signature.inputs:
                item.error(24, f"{text!r} is no input")
            elif text in found.values():
                item.error(24, f"the gradient of {text!r} is given twice")
            found[name] = text
        return found

    def _is_tensor(self, name: str) -> bool:
        return name in self.signature.inputs or name in self.signature.outputs
