"""Checks of effects: what is written, what aliases, and that schema and traffic agree."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.effects import aliases, effect_branch, operator_schema, traffic
from tileops._core.signature.findings import Complaint
from tileops._core.spec.model import TensorInput, TensorOutput


def effect_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 22 and 33 on every branch."""
    signature = analysis.facts.signature
    for output in signature.outputs.values():
        source = signature.inputs.get(output.alias or "")
        if source is not None:
            yield from _alias_complaints(analysis, output, source)
    yield from _idle_branches(analysis)
    yield from _agreement(analysis)


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

    def judge(point: Point) -> Iterator[str]:
        if not facts.present(output.name, point) or not aliases(output, facts, point):
            return
        if families.parts(output.shape, point) != families.parts(source.shape, point):
            yield f"its shape {output.shape.text} differs from {source.shape.text} of {source.name}"
        dtypes = [facts.fold(d.node, point) for d in (output.dtype, source.dtype) if d.node]
        if dtypes[0] != dtypes[1]:
            yield f"its dtype {output.dtype.text} differs from {source.dtype.text} of {source.name}"

    for fault in analysis.branches.judge(reads, judge):
        yield Complaint(f"signature.outputs.{output.name}.alias", 22, fault)


def _idle_branches(analysis: Analysis) -> Iterator[Complaint]:
    """Without outputs, every accepted branch writes an input."""
    signature, space = analysis.facts.signature, analysis.branches.accepted
    if signature.outputs or "signature.outputs" in analysis.spec.unknown:
        return
    idle = sum(
        1 << bit
        for bit, point in enumerate(space.points)
        if not effect_branch(analysis.facts, point).writes
    )
    if idle and any(tensor.mutated is not False for tensor in signature.inputs.values()):
        yield Complaint("signature", 22, f"nothing is returned or written{space.witness(idle)}")


def _agreement(analysis: Analysis) -> Iterator[Complaint]:
    """The operator of an effect branch writes and returns what is charged a write."""
    space = analysis.branches.accepted
    found: dict[str, int] = {}
    for bit, point in enumerate(space.points):
        schema = operator_schema(analysis.facts, point)
        charged = {name for name, _, writes in traffic(analysis.facts, point) if writes}
        inputs = charged & set(analysis.facts.signature.inputs)
        outputs = charged - inputs
        faults: list[str] = []
        if set(schema.written) != inputs:
            faults.append(f"the operator writes {schema.written}, charged are {sorted(inputs)}")
        if {*schema.returned, *schema.buffered} != outputs:
            faults.append(f"the operator returns {schema.returned}, charged are {sorted(outputs)}")
        for fault in faults:
            found[fault] = found.get(fault, 0) | 1 << bit
    for fault, where in found.items():
        yield Complaint("signature", 33, fault + space.witness(where))
