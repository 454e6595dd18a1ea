"""Checks of effects: what is written, what aliases, and that schema and traffic agree."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.effects import aliases, effect_branch, operator_schema, traffic
from tileops._core.signature.findings import Complaint, witnessed
from tileops._core.spec.model import TensorInput, TensorOutput


def effect_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 22 and 33 on every branch."""
    signature = analysis.facts.signature
    for output in signature.outputs.values():
        source = signature.inputs.get(output.alias or "")
        if source is not None:
            yield from _alias_complaints(analysis, output, source)
    yield from witnessed(analysis.branches.accepted, _idle_branches(analysis))
    yield from witnessed(analysis.branches.accepted, _disagreements(analysis))


def _alias_complaints(
    analysis: Analysis, output: TensorOutput, source: TensorInput
) -> Iterator[Complaint]:
    """An output that is its input has the input's shape and dtype."""
    facts, families = analysis.facts, analysis.families
    trees = (output.shape.node, source.shape.node, output.dtype.node, source.dtype.node)
    if any(tree is None for tree in trees):
        return
    conditions = [tree for tree in trees if tree is not None]
    reads = {name for tree in conditions for name in facts.reads(tree)}
    reads |= {*facts.presence_reads(output.name), *facts.presence_reads(source.name)}
    reads |= facts.write_reads(source)

    path = f"signature.outputs.{output.name}.alias"

    def complaints(point: Point) -> Iterator[Complaint]:
        if not facts.present(output.name, point) or not aliases(output, facts, point):
            return
        shapes = [families.parts(declared, point) for declared in (output.shape, source.shape)]
        if None not in shapes and shapes[0] != shapes[1]:
            texts = f"{output.shape.text} differs from {source.shape.text}"
            yield Complaint(path, 22, f"its shape {texts} of {source.name}")
        dtypes = [facts.fold(d.node, point) for d in (output.dtype, source.dtype) if d.node]
        if dtypes[0] != dtypes[1]:
            texts = f"{output.dtype.text} differs from {source.dtype.text}"
            yield Complaint(path, 22, f"its dtype {texts} of {source.name}")

    yield from analysis.branches.judge(reads, complaints)


def _idle_branches(analysis: Analysis) -> Iterator[tuple[int, Complaint]]:
    """Without outputs, every accepted branch writes an input."""
    signature = analysis.facts.signature
    if signature.outputs or "signature.outputs" in analysis.spec.unknown:
        return
    if all(tensor.mutated is False for tensor in signature.inputs.values()):
        return
    for bit, point in enumerate(analysis.branches.accepted.points):
        if not effect_branch(analysis.facts, point).writes:
            yield bit, Complaint("signature", 22, "nothing is returned or written")


def _disagreements(analysis: Analysis) -> Iterator[tuple[int, Complaint]]:
    """The operator of a branch writes and returns exactly what is charged a write."""
    names = set(analysis.facts.signature.inputs)
    for bit, point in enumerate(analysis.branches.accepted.points):
        schema = operator_schema(analysis.facts, point)
        charged = {name for name, _, writes in traffic(analysis.facts, point) if writes}
        for verb, declared, counted in (
            ("writes", {*schema.written}, charged & names),
            ("returns", {*schema.returned, *schema.buffered}, charged - names),
        ):
            if declared != counted:
                message = f"the operator {verb} {sorted(declared)}, charged are {sorted(counted)}"
                yield bit, Complaint("signature", 33, message)
