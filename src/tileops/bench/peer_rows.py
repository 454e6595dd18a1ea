"""Published rows as calls of our ops, so that the bench can time what others have published.

A published row states shapes, parameters and a dtype. The mapping turns them into those of our op;
indices are solved from shapes by the rules of the signature, and the call is checked as a workload
row is. What a signature does not admit is left, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tileops._core.signature.analysis import Analysis
from tileops._core.signature.solve import Operand, Solver
from tileops._core.spec.model import Location, OpSpec, Row
from tileops._core.spec.registry import lookup
from tileops._core.workload.branch import Branch, is_dtype_index
from tileops._core.workload.cases import Case, Setting
from tileops._core.workload.faults import RowFault
from tileops._core.workload.inference import Inference, InferenceFault
from tileops._core.workload.rows import RowReader
from tileops.bench.published import (
    Demand,
    Published,
    Rules,
    read_published,
    read_rules,
    rules_for,
)

MISFIT = 37
"""The validator's check of what a row implies."""


class PublishedRows:
    """The rows of a record of published times, by the ops of ours that they call.

    Args:
        table: the record, as CSV.
        mapping: how ops there map to ours; that of this package where absent.

    Raises:
        PeerFault: a file cannot be read, or is of another form.
    """

    def __init__(self, table: Path, mapping: Path | None = None) -> None:
        rules, published = read_rules(mapping), read_published(table)
        self._rows: dict[str, list[tuple[Published, Demand]]] = {}
        for row in published:
            demand = _demand(row, rules)
            if demand is not None:
                self._rows.setdefault(demand.op, []).append((row, demand))
        self.elsewhere = len(published) - sum(map(len, self._rows.values()))
        """How many rows are of ops that we do not have."""
        self.unlike: list[str] = []
        """Rows of which no call of ours could be made, so far, and why."""

    def count(self, spec: OpSpec, labels: Collection[str] | None = None) -> int:
        """How many rows an op has, or how many of these names."""
        rows = self._rows.get(spec.name, ())
        return sum(labels is None or not {row.case, row.id}.isdisjoint(labels) for row, _ in rows)

    def cases(self, spec: OpSpec) -> Iterator[Case]:
        """The calls of an op that its rows ask for; what cannot be made comes into `unlike`."""
        rows = self._rows.get(spec.name, ())
        reader = RowReader(Analysis(spec)) if rows else None
        for row, demand in rows:
            assert reader is not None
            try:
                yield peer_case(reader, row, demand)
            except RowFault as fault:
                self.unlike.append(str(fault))


def peer_case(reader: RowReader, row: Published, demand: Demand) -> Case:
    """The call that a published row asks for.

    Args:
        reader: reads rows of the spec of the op.
        row: the published row.
        demand: what it asks of the op.

    Raises:
        RowFault: the signature does not admit it, or it says too little.
    """
    signature = reader.spec.signature
    unknown = sorted(demand.values.keys() - {*signature.params, *signature.forall})
    if unknown:
        raise RowFault(MISFIT, row.id, f"{reader.spec.name} has no {', '.join(unknown)}")
    written = _row(reader.spec, row, demand)
    setting = reader.setting(written)
    dtypes = dict(_dtypes(reader.spec, setting.branch, row, demand))
    indices = _indices(reader, setting, row, demand)
    dtype_cases = (dtypes,) if dtypes else ()
    values = {**written.values, **indices}
    setting = reader.setting(replace(written, values=values, dtype_cases=dtype_cases))
    for fault in reader.key_faults(setting):
        raise fault
    case = replace(reader.instantiate(setting, dtypes), id=row.id)
    for name, shape in demand.shapes.items():
        found = case.tensors.get(name) or case.outputs.get(name)
        if (found and list(found.shape)) != shape:
            text = list(found.shape) if found else "not passed"
            raise RowFault(MISFIT, row.id, f"{name} is {text}, published is {shape}")
    return case


def _demand(row: Published, rules: Rules) -> Demand | None:
    """What a row asks of the first op that a rule maps it to and that is implemented."""
    for rule in rules_for(rules, row.op):
        spec = lookup(rule.op)
        if spec is not None and spec.status == "implemented":
            names = {*spec.signature.params, *spec.signature.forall}
            demand = rule.demand(row.stated, names)
            if demand is not None:
                return demand
    return None


def _row(spec: OpSpec, row: Published, demand: Demand) -> Row:
    """A workload row with what is stated of parameters and presence."""
    stated = (name for name, shape in demand.shapes.items() if shape is not None)
    given = {*demand.passed, *stated}
    tensors = {**spec.signature.params, **spec.signature.inputs}
    some = tuple(name for name in tensors if name in given and _optional(tensors[name]))
    values = {n: value for n, value in demand.values.items() if n in spec.signature.params}
    return Row(values, some, (), row.case, row.id, Location(row.op, 0))


def _optional(tensor: Any) -> bool:
    return getattr(tensor, "optional", None) is True


def _dtypes(
    spec: OpSpec, branch: Branch, row: Published, demand: Demand
) -> Iterator[tuple[str, str]]:
    """The dtypes of the call: what the mapping gives, else what is stated."""
    for name in branch.given:
        if is_dtype_index(spec, name):
            yield name, demand.values.get(name, row.dtype)


def _indices(
    reader: RowReader, setting: Setting, row: Published, demand: Demand
) -> Mapping[str, Any]:
    """The indices that a row has to give: what is stated, and what shapes imply."""
    spec, branch = reader.spec, setting.branch
    known: dict[str, Any] = {**setting.params, **demand.lengths}
    known |= {n: v for n, v in demand.values.items() if n in spec.signature.forall}
    shapes = {name: shape for name, shape in demand.shapes.items() if shape is not None}
    operands = [
        Operand(tensor, place, None, reader.analysis.families.parts(tensor.shape, branch.point))
        for place, tensor in enumerate(reader.finder.tensors(branch.point))
        if tensor.name in shapes
    ]
    solver = Solver(reader.analysis.catalogue, frozenset(known), branch.lets)
    solver.solve(operands)
    inference = Inference(
        spec,
        known,
        lambda name: reader.finder.present(name, branch.point),
        {name: tuple(shape) for name, shape in shapes.items()},
        {},
    )
    try:
        inference.run(solver.actions)
    except InferenceFault as fault:
        raise RowFault(MISFIT, row.id, str(fault)) from None
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in inference.values.items()
        if name in branch.given and not is_dtype_index(spec, name)
    }
