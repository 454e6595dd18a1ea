"""Random well-formed signatures with a random solution: the same solution comes back.

Each case draws a signature whose indices can be solved, a value for every parameter and index, and
tensors that fit. The checks must find these values, and so must the workload row that stands for
them; changed in one place, the construction, the call or the result must be rejected by an error
that names the declaration there. `TILEOPS_PROPERTY_CASES` sets the number of cases,
`TILEOPS_PROPERTY_FIRST` the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from signature.drawing.case import FINITE, NAME, Case
from signature.drawing.draw import FAMILIES, FLOATS, draw
from signature.drawing.parameters import KINDS
from tileops._core.lang.dtypes import BITS
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.printer import to_text
from tileops._core.runtime.plan import _SignaturePlan, plan_of
from tileops._core.signature.plan import (
    CheckAxis,
    CheckDtype,
    CheckRank,
    CheckSplice,
    Discriminant,
    Plan,
    SolveAxis,
    SolveDtype,
    Value,
)
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import OpSpec
from tileops._core.spec.source import Source
from tileops._core.workload.rows import cases_of
from tileops.errors import ManifestError, SignatureError, SignatureTypeError

CASES = int(os.environ.get("TILEOPS_PROPERTY_CASES", "500"))
FIRST = int(os.environ.get("TILEOPS_PROPERTY_FIRST", "0"))
CHUNKS = 20


def read(case: Case) -> OpSpec:
    """The spec of a case."""
    source = Source("drawn.yaml", package=None)
    spec = Manifest().adding([mapping_content(case.spec(), source)]).lookup(NAME)
    assert spec is not None
    return spec


class Instance:
    """An op of a drawn signature."""

    def __init__(self, decided: Plan, arguments: dict[str, Any]) -> None:
        self.decided = decided
        self.checks = _SignaturePlan.of(decided)
        self._placed_tensors: dict[str, Any] = {}
        self._known_calls: dict[Any, Any] = {}
        self.__dict__.update(arguments)
        self._construction_indices = self.checks.check_construction(self)

    def check(self, tensors: dict[str, Any]) -> Any:
        return self.checks.check(self, tensors)


def made(case: Case) -> dict[str, Any]:
    """The tensors of a call."""
    tensors: dict[str, Any] = {
        name: None if case.shapes[name] is None else case.empty(name) for name in case.inputs
    }
    return {**tensors, "out": case.empty("y")} if case.passes_out else tensors


def point(case: Case, discriminants: tuple[Discriminant, ...]) -> dict[str, Value]:
    """The branch that the solution lies on."""
    return {d.name: _discriminant(case, d) for d in discriminants}


def _discriminant(case: Case, of: Discriminant) -> Value:
    if of.source != "param":
        return case.is_there(of.name)
    value: Any = case.values[of.name]
    if of.values == (None, "given"):
        return None if value is None else "given"
    if hasattr(value, "kind"):
        fields = FINITE.get(value.kind, ())
        return value.kind, tuple((field, getattr(value, field)) for field in fields)
    return value


# The solution


def assert_solution(case: Case, op: Instance) -> Any:
    """The values that were drawn come back, from tensors and from shapes alone."""
    record = op.check(made(case))
    names = [*case.forall, *case.params, *case.lets]
    known = {name: case.values[name] for name in names if name in case.values}
    found = {name: record.indices[name] for name in known if name in record.indices}
    assert found == {name: known[name] for name in found}
    used = {name for name in case.forall if name in known and name not in case.untold}
    assert used <= set(found)
    shapes = {name: case.shapes[name] for name in case.outputs if case.is_there(name)}
    assert {n: record.shape(n) for n in case.outputs if record.present(n)} == shapes
    assert {n: record.tensors[n][1] for n in shapes} == {n: case.dtype(n) for n in shapes}
    place = point(case, op.decided.discriminants)
    assert record.branch_key == tuple(place.values())
    passed = {name: case.shapes[name] for name in case.inputs}
    dtypes = {name: case.dtype(name) for name, shape in passed.items() if shape is not None}
    assert op.checks.output_shapes(op, passed, dtypes) == shapes
    assert op.checks.output_shapes(op, passed) == shapes
    return record


def assert_costs(case: Case, op: Instance, record: Any) -> None:
    """What is written, and what the call costs."""
    written = {name for name in case.inputs if is_written(case, name)}
    assert set(record.written) == written
    assert record.has_out is case.passes_out
    moved = 0
    for name, shape in case.shapes.items():
        if shape is None:
            continue
        declared = {**case.params, **case.inputs, **case.outputs}[name]
        if name in case.outputs:
            times = int(declared.get("alias") not in written)
        else:
            times = 1 + (name in written) - bool(name in written and declared.get("write_only"))
        moved += times * (prod(shape) * BITS[case.dtype(name)] // 8)
    assert op.checks.eval_roofline(record) == (case.value(case.flops), moved)


def is_written(case: Case, name: str) -> bool:
    condition = case.inputs[name].get("mutated", False)
    return case.is_there(name) and (condition is True or bool(condition and case.value(condition)))


def assert_row(case: Case, spec: OpSpec) -> None:
    """The row gives the same call, its contents included."""
    [found] = cases_of(spec)
    tensors = {**case.params, **case.inputs}
    expected = {n: (s, case.dtype(n)) for n, s in case.shapes.items() if s is not None}
    assert {n: (t.shape, t.dtype) for n, t in found.tensors.items()} == {
        name: form for name, form in expected.items() if name in tensors
    }
    assert {n: (t.shape, t.dtype) for n, t in found.outputs.items()} == {
        name: form for name, form in expected.items() if name in case.outputs
    }
    told = [n for n in case.forall if n in found.values and n in case.values]
    assert {n: found.values[n] for n in told} == {n: case.values[n] for n in told}


def assert_traced_solution(case: Case, op: Instance) -> None:
    """The solution comes back from symbolic sizes too."""
    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        dynamic = [DimDynamic.DYNAMIC] * tensor.dim()
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic))

    record = op.check({name: t if t is None else fake(t) for name, t in made(case).items()})
    for name in case.outputs:
        expected = case.shapes[name]
        assert record.present(name) is (expected is not None)
        assert expected is None or tuple(map(int, record.shape(name))) == expected


# Changes that a call must notice


class Change(NamedTuple):
    """The declaration that an error must name, the tensors that cause it, and its class."""

    declaration: str
    tensors: dict[str, Any]
    error: type[SignatureError] = SignatureError


def changed(case: Case, name: str, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """The tensors of a case with another shape or dtype of one."""
    chosen = getattr(torch, dtype or case.dtype(name))
    return {**made(case), name: torch.empty(shape, dtype=chosen)}


def longer(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])


def changes(case: Case, op: Instance) -> list[Change]:
    """One change for every check that one change breaks."""
    return [*form_changes(case, op), *presence_changes(case), *place_changes(case)]


def form_changes(case: Case, op: Instance) -> list[Change]:
    """Another extent, rank or dtype, for each step that judges one."""
    found: list[Change] = []
    place = point(case, op.decided.discriminants)
    for step in op.decided.call:
        tensor = getattr(step, "tensor", None)
        if tensor is None or tensor.role != "input" or not step.guard.holds(place):
            continue
        shape = case.shapes[tensor.name]
        if shape is None:
            continue
        path = f"inputs.{tensor.name}"
        new: tuple[int, ...] | None = None
        if isinstance(step, CheckAxis) or (isinstance(step, SolveAxis) and step.scale > 1):
            new = longer(shape, axis_of(case, step.position, len(shape)))
        elif isinstance(step, CheckSplice) and case.value(to_text(step.value)):
            new = longer(shape, run_start(case, step, len(shape)))
        elif isinstance(step, CheckRank) and not step.open:
            at = run_place(op, tensor.name)
            new = (*shape[:at], 1, *shape[at:])
        elif isinstance(step, SolveDtype | CheckDtype):
            found.append(Change(f"{path}.dtype", changed(case, tensor.name, shape, "complex64")))
        if new is not None:
            found.append(Change(f"{path}.shape", changed(case, tensor.name, new)))
    return found


def run_place(op: Instance, name: str) -> int:
    """How many axes stand before the first run: one more there moves none that is counted."""
    steps = (step for step in op.decided.call if getattr(step, "position", None) is not None)
    places = (step.position for step in steps if step.tensor.name == name)
    return max((p.fixed + 1 for p in places if p.side == "left" and not p.splices), default=0)


def axis_of(case: Case, position: Any, rank: int) -> int:
    run = sum(len(case.value(to_text(splice))) for splice in position.splices)
    return position.fixed + run if position.side == "left" else rank - 1 - position.fixed - run


def run_start(case: Case, step: CheckSplice, rank: int) -> int:
    at = axis_of(case, step.position, rank)
    is_left = step.position.side == "left"
    return at if is_left else at + 1 - len(case.value(to_text(step.value)))


def presence_changes(case: Case) -> list[Change]:
    """Required inputs left out, no tensors at all, and presence against a condition."""
    found: list[Change] = []
    for name, tensor in case.inputs.items():
        optional = tensor.get("optional", False)
        if optional is False:
            missing = made(case) | {name: None}
            found.append(Change(f"inputs.{name}", missing, SignatureTypeError))
        if case.is_there(name):
            wrong = made(case) | {name: [1.0]}
            found.append(Change(f"inputs.{name}", wrong, SignatureTypeError))
        if isinstance(optional, str):
            other = None if case.is_there(name) else torch.empty(1)
            found.append(Change(f"inputs.{name}.optional", made(case) | {name: other}))
    if case.passes_out:
        shape = case.shapes["y"]
        assert shape is not None
        other = case.empty("y", longer(shape, 0))
        found.append(Change("outputs.y.buffer", made(case) | {"out": other}))
    return found


def place_changes(case: Case) -> list[Change]:
    """Tensors with gaps, that overlap themselves, or on another device, where none may be."""
    found: list[Change] = []
    for name, tensor in case.inputs.items():
        shape = case.shapes[name]
        if shape is None:
            continue
        whole = case.empty(name)
        if tensor.get("contiguous") and prod(shape) > 1:
            gaps = torch.empty((*shape, 2), dtype=whole.dtype)[..., 0]
            found.append(Change(f"inputs.{name}.contiguous", made(case) | {name: gaps}))
        if is_written(case, name) and prod(shape) > 1 and not tensor.get("contiguous"):
            one = torch.empty((), dtype=whole.dtype).expand(shape)
            found.append(Change(f"inputs.{name}.mutated", made(case) | {name: one}))
        if tensor.get("device"):
            elsewhere = made(case) | {name: whole.to("meta")}
            found.append(Change(f"inputs.{name}.device", elsewhere))
    return found


def assert_calls_rejected(case: Case, op: Instance) -> None:
    """Each change is rejected by an error that names the declaration there."""
    for declaration, tensors, error in changes(case, op):
        with pytest.raises(SignatureError) as caught:
            op.check(tensors)
        assert type(caught.value) is error, declaration
        assert caught.value.declaration.partition(" ")[0] == declaration
        assert caught.value.phase == "call"


def assert_constructions_rejected(case: Case, op: Instance) -> None:
    """What a parameter refuses is rejected by an error that names it."""
    refused = [(name, f"params.{name}", value) for name in case.wrong for value in case.wrong[name]]
    for name, path, value in [*refused, *held_changes(case)]:
        with pytest.raises(SignatureError) as caught:
            op.checks.check_construction(SimpleNamespace(**{**vars(op), name: value}))
        assert caught.value.declaration.startswith((path, "adts.")), (name, value)
        assert caught.value.phase == "construction"


def held_changes(case: Case) -> Iterator[tuple[str, str, Any]]:
    """Construction-time tensors that are missing, unwanted, of another form or in another place."""
    for name, tensor in case.params.items():
        if "shape" not in tensor:
            continue
        path, optional = f"params.{name}", tensor.get("optional", False)
        yield name, path, [1.0]
        if optional is False:
            yield name, path, None
        if isinstance(optional, str):
            yield name, f"{path}.optional", None if case.is_there(name) else torch.empty(1)
        shape = case.shapes[name]
        if shape is not None:
            yield name, f"{path}.dtype", torch.empty(shape, dtype=torch.complex64)
            yield name, f"{path}.shape", case.empty(name, (*shape, 1))
            yield name, f"{path}.shape", case.empty(name, longer(shape, len(shape) - 1))
            if tensor.get("contiguous") and prod(shape) > 1:
                whole = case.empty(name, (*shape, 2))
                yield name, f"{path}.contiguous", whole[..., 0]
            if tensor.get("device"):
                yield name, f"{path}.device", case.empty(name).to("meta")


def assert_rule_rejected(case: Case) -> None:
    """A refinement that does not hold is named by the error, at the earliest time."""
    place = case.rng.randrange(len(case.rules))
    case.rules[place] = f"not ({case.rules[place]})"
    try:
        decided = plan_of(read(case))
    except ManifestError as error:
        assert "[V29]" in str(error)  # the refinement holds on every branch, so none is left
        return
    phase = "construction"
    with pytest.raises(SignatureError) as caught:
        op = Instance(decided, case.arguments)
        phase = "call"
        op.check(made(case))
    assert caught.value.declaration.startswith(f"shape_rules[{place}]")
    assert caught.value.phase == phase


def assert_combinations_rejected(case: Case, op: Instance) -> None:
    """Dtypes that are each admitted, but not together."""
    kept, columns = case.values["T"], list(case.combos[0]) if case.combos else []
    held = {case.params[name].get("dtype") for name in case.params}
    for other in FLOATS if case.combos and "T" not in held else ():
        case.values["T"] = other
        if {name: case.values[name] for name in columns} not in case.combos:
            with pytest.raises(SignatureError) as caught:
                op.check(made(case))
            assert caught.value.declaration.startswith("dtype_combos")
    case.values["T"] = kept


def assert_results_judged(case: Case, op: Instance, record: Any) -> None:
    """A result as promised passes, and one that differs is rejected where it does."""
    tensors = made(case)
    good: dict[str, Any] = {name: result_for(case, name, tensors) for name in case.outputs}

    def judge(**other: Any) -> None:
        values = [*(good | other).values()]
        op.checks.check_result(op, record, values[0] if len(values) == 1 else values, tensors)

    judge()
    for name, value in good.items():
        path = f"outputs.{name}"
        if value is None:
            wrong = [(path, torch.empty(1))]
        elif any(value is tensor for tensor in tensors.values()):
            wrong = [(path, value.clone()), (path, None)]
        else:
            shape = tuple(value.shape)
            wrong = [
                (f"{path}.shape", value.new_empty((*shape, 1))),
                (f"{path}.dtype", value.to(torch.complex64)),
                (path, None),
            ]
            if prod(shape) > 1:
                wrong.append((f"{path}.contiguous", value.new_empty((*shape, 2))[..., 0]))
        for declaration, other in wrong:
            with pytest.raises(SignatureError) as caught:
                judge(**{name: other})
            assert caught.value.declaration.startswith(declaration)


def result_for(case: Case, name: str, tensors: dict[str, Any]) -> Any:
    """What an implementation returns for an output."""
    if case.shapes[name] is None:
        return None
    alias = case.outputs[name].get("alias")
    if alias is not None and is_written(case, alias):
        return tensors[alias]
    return tensors["out"] if name == "y" and case.passes_out else case.empty(name)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_signatures(chunk: int) -> None:
    for seed in range(FIRST + chunk, FIRST + CASES, CHUNKS):
        case = draw(seed)
        try:
            judge(case, seed)
        except Exception as error:
            values = {name: case.values[name] for name in (*case.params, *case.forall)
                      if name in case.values}  # fmt: skip
            raise AssertionError(f"case {seed}: {case.spec()} with {values}") from error


def judge(case: Case, seed: int) -> None:
    """Everything about a case; what takes longest, of some only."""
    spec = read(case)
    op = Instance(plan_of(spec), case.arguments)
    record = assert_solution(case, op)
    assert_costs(case, op, record)
    assert_results_judged(case, op, record)
    assert_row(case, spec)
    assert_calls_rejected(case, op)
    assert_combinations_rejected(case, op)
    assert_constructions_rejected(case, op)
    if seed % 3 == 0:
        assert_rule_rejected(case)
    elif seed % 10 == 1:
        assert_traced_solution(case, op)


def test_the_cases_are_varied() -> None:
    """What is drawn covers every kind of declaration, each way round."""
    cases = [draw(seed) for seed in range(600)]
    texts = [str(case.spec()) for case in cases]
    for name, kind in KINDS.items():
        drawn = [case.values[name] for case in cases if name in case.params]
        assert {value is None for value in drawn} == {False, kind.type.endswith("| None")}
        assert not kind.type.startswith("bool") or False in drawn
    for family in FAMILIES:
        assert any(f"Of{family.capitalize()}" in case.types for case in cases), family
    for name in ("held", "spare", "o", "w", "m"):
        there = {case.shapes[name] is not None for case in cases if name in case.shapes}
        assert there == ({True} if name == "held" else {True, False}), name
    for word in ("InOfStore", "F", "meta", "values", "requires", "dtype_combos", "alias", "mutated",
                 "write_only", "contiguous", "device", "buffer", "nullable"):  # fmt: skip
        assert any(f"'{word}'" in text for text in texts), word
    for let in ("kept", "late", "pick", "plan"):
        assert {name for case in cases for name in case.lets} >= {let}, let
    for call in BUILTINS:
        assert any(f"{call}(" in text for text in texts), call
    assert {case.passes_out for case in cases if "buffer" in case.outputs["y"]} == {True, False}
    writing = [is_written(case, "acc") for case in cases if "acc" in case.inputs]
    assert set(writing) == {True, False}
