"""Random well-formed signatures with a random solution: the same solution comes back.

Each case draws a signature whose indices can be solved, a value for every index, and tensors that
fit. The check must return these values; changed in one place, the call must be rejected by an
error that names the declaration there. `TILEOPS_PROPERTY_CASES` sets the number of cases.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tileops._core.runtime.plan import _SignaturePlan, plan_of
from tileops._core.signature.plan import (
    CheckAxis,
    CheckDtype,
    CheckRank,
    CheckSplice,
    SolveAxis,
    SolveDtype,
)
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.source import Source
from tileops.errors import SignatureError, SignatureTypeError

CASES = int(os.environ.get("TILEOPS_PROPERTY_CASES", "500"))
CHUNKS = 20
FLOATS = ["float16", "bfloat16", "float32", "float64"]


@dataclass
class Case:
    """A signature, a solution, and tensors by name."""

    rng: random.Random
    values: dict[str, Any] = field(default_factory=dict)
    forall: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    lets: dict[str, str] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    expected: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dims: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def spec(self) -> dict[str, Any]:
        """The spec as data."""
        signature = {
            "forall": self.forall,
            "params": self.params,
            "inputs": dict(sorted(self.inputs.items(), key=lambda i: "optional" in i[1])),
            "outputs": self.outputs,
            "let": self.lets,
            "shape_rules": self.rules,
            "types": {
                "Mat": {
                    "params": {"flip": "Bool", "A": "Dim", "B": "Dim"},
                    "match": "flip",
                    "cases": [{"when": False, "is": "[A, B]"}, {"when": True, "is": "[B, A]"}],
                }
            },
        }
        if not any("Mat[" in t["shape"] for t in self.inputs.values()):
            del signature["types"]
        return {
            "DrawnFwdOp": {
                "family": "drawn",
                "status": "spec-only",
                "signature": signature,
                "workloads": [{"label": "unused"}],
                "roofline": {"flops": 0},
            }
        }


Axis = tuple[str, Callable[[dict[str, Any]], int]]


def solving_axis(case: Case, name: str) -> Axis:
    """An axis that is affine in a length not known yet, and its value."""
    rng, known = case.rng, case.dims
    scale, shift = rng.choice([1, 1, 2, 3]), rng.choice([0, 0, 1, 4])
    left = name if scale == 1 else rng.choice([f"{scale} * {name}", f"{name} * {scale}"])
    if known and rng.random() < 0.25:
        other = rng.choice(known)
        return f"{left} + {other}", lambda v: scale * v[name] + v[other]
    if shift:
        return rng.choice([f"{left} + {shift}", f"{shift} + {left}"]), (
            lambda v: scale * v[name] + shift
        )
    return left, lambda v: scale * v[name]


def compared_axis(case: Case) -> Axis:
    """An axis over lengths that are known, and its value."""
    rng = case.rng
    a, b = rng.choice(case.dims), rng.choice(case.dims)
    return rng.choice(
        [
            (a, lambda v: v[a]),
            (f"{a} + {b}", lambda v: v[a] + v[b]),
            (f"{a} * {b}", lambda v: v[a] * v[b]),
            (f"{a} // 2", lambda v: v[a] // 2),
            (f"ceil_div({a}, 3)", lambda v: -(-v[a] // 3)),
            (f"({a} if flag else {b} + 1)", lambda v: v[a] if v["flag"] else v[b] + 1),
            ("5", lambda v: 5),
        ]
    )


def add_tensor(case: Case, name: str, unknown: list[str], run: str | None) -> None:
    """A required input that solves some lengths, and at most one run of axes."""
    rng = case.rng
    parts: list[tuple[str, Callable[[dict[str, Any]], tuple[int, ...]]]] = []
    for index in unknown:
        text, value = solving_axis(case, index)
        parts.append((text, lambda v, value=value: (value(v),)))
        case.dims.append(index)
    for _ in range(rng.randint(0, 1)):
        text, value = compared_axis(case)
        parts.insert(rng.randint(0, len(parts)), (text, lambda v, value=value: (value(v),)))
    if run is not None:
        parts.insert(rng.randint(0, len(parts)), (f"*{run}", lambda v: tuple(v[run])))
        case.runs.append(run)
    elif case.runs and rng.random() < 0.3:
        seen = rng.choice(case.runs)
        parts.insert(rng.randint(0, len(parts)), (f"*{seen}", lambda v: tuple(v[seen])))
    case.inputs[name] = {
        "dtype": rng.choice(["T", "T", "U"]),
        "shape": f"[{', '.join(text for text, _ in parts)}]",
    }
    case.shapes[name] = tuple(n for _, value in parts for n in value(case.values))


def add_compared(case: Case, name: str, fields: dict[str, Any], present: bool) -> None:
    """An input over known names; left out where it is not present."""
    axes = [compared_axis(case) for _ in range(case.rng.randint(0, 2))]
    case.inputs[name] = {
        "dtype": case.rng.choice(["T", "int32", "promote_int_to_float(U)"]),
        "shape": f"[{', '.join(text for text, _ in axes)}]",
        **fields,
    }
    case.shapes[name] = tuple(value(case.values) for _, value in axes) if present else None


def draw(seed: int) -> Case:
    """A random case."""
    rng = random.Random(seed)
    case = Case(rng)
    case.values = {"flag": rng.random() < 0.5, "k": rng.randint(1, 4)}
    case.values |= {name: rng.randint(0, 7) for name in "ABCDE"}
    case.values |= {
        name: tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3))) for name in ("R", "S")
    }
    case.params = {"flag": {"type": "bool"}, "k": {"type": "int"}}
    case.forall = {"T": f"DType[{' | '.join(FLOATS)}]", "U": "DType[float32 | int8 | int32]"}
    case.values |= {"T": rng.choice(FLOATS), "U": rng.choice(["float32", "int8", "int32"])}
    dims, runs = list("ABCDE")[: rng.randint(1, 5)], ["R", "S"][: rng.randint(0, 2)]
    case.forall |= dict.fromkeys(dims, "Dim") | dict.fromkeys(runs, "Shape")
    add_solving(case, dims, runs)
    if rng.random() < 0.5:
        add_compared(case, "w", {"optional": "flag"}, case.values["flag"])
    if rng.random() < 0.5:
        add_compared(case, "o", {"optional": True}, rng.random() < 0.5)
    add_rest(case)
    return case


def add_solving(case: Case, dims: list[str], runs: list[str]) -> None:
    """Inputs, and perhaps a construction-time tensor, that solve every index."""
    rng, waiting, left = case.rng, list(dims), list(runs)
    if rng.random() < 0.3:
        index = waiting.pop(0)
        case.params["held"] = {"dtype": "float32", "shape": f"[2 * {index}]"}
        case.given["held"] = torch.zeros(2 * case.values[index])
        case.dims.append(index)
    number = 0
    while waiting or left or number == 0:
        take = [waiting.pop(0) for _ in range(min(len(waiting), rng.randint(0, 2)))]
        run = left.pop() if left and (case.dims or take) else None
        if not take and run is None and not case.dims:
            continue
        if len(take) == 2 and run is None and rng.random() < 0.4:
            add_family(case, f"x{number}", take)
        else:
            add_tensor(case, f"x{number}", take, run)
        number += 1
    case.inputs["t"] = {"dtype": "T", "shape": f"[{case.dims[0]}]"}
    case.inputs["u"] = {"dtype": "U", "shape": "[]"}
    case.shapes |= {"t": (case.values[case.dims[0]],), "u": ()}


def add_family(case: Case, name: str, unknown: list[str]) -> None:
    """An input whose shape a type family chooses."""
    a, b = unknown
    case.dims += unknown
    case.inputs[name] = {"dtype": "T", "shape": f"Mat[flag, {a}, {b}]"}
    shape = case.values[a], case.values[b]
    case.shapes[name] = shape[::-1] if case.values["flag"] else shape


def add_rest(case: Case) -> None:
    """Lets, outputs and refinements that hold."""
    rng, a = case.rng, case.dims[0]
    case.lets = {"half": f"{a} // 2", "scaled": "half * k"}
    case.outputs["y"] = {"dtype": "U", "shape": f"[scaled, {a}]"}
    case.expected["y"] = (case.values[a] // 2 * case.values["k"], case.values[a])
    for run in case.runs:
        case.outputs[f"y_{run}"] = {"dtype": "T", "shape": f"[*{run}, half]"}
        case.expected[f"y_{run}"] = (*case.values[run], case.values[a] // 2)
    case.rules = [f"{a} <= {case.values[a]} or flag", f"k > 0 and {a} >= half"]
    kinds = {name: tensor["dtype"] for name, tensor in case.inputs.items()}
    named = {"T": case.values["T"], "U": case.values["U"], "promote_int_to_float(U)": "float32"}
    case.dtypes = {name: named.get(kind, kind) for name, kind in kinds.items()}
    rng.shuffle(case.rules)


class Instance:
    """An op of a drawn signature."""

    def __init__(self, case: Case) -> None:
        source = Source("drawn.yaml", package=None)
        spec = Manifest().adding([mapping_content(case.spec(), source)]).lookup("DrawnFwdOp")
        assert spec is not None
        self.decided = plan_of(spec)
        self.checks = _SignaturePlan(self.decided)
        self._placed_tensors: dict[str, Any] = {}
        self._known_calls: dict[Any, Any] = {}
        self.__dict__.update(case.given)
        self.flag, self.k = case.values["flag"], case.values["k"]
        self._construction_indices = self.checks.check_construction(self)

    def check(self, tensors: dict[str, Any]) -> Any:
        return self.checks.check(self, tensors)


def made(case: Case) -> dict[str, Any]:
    """The tensors of a case."""
    return {
        name: None if shape is None else torch.empty(shape, dtype=getattr(torch, case.dtypes[name]))
        for name, shape in case.shapes.items()
    }


def assert_solution(case: Case, op: Instance) -> None:
    """The values that were drawn come back, from tensors and from shapes alone."""
    record = op.check(made(case))
    used = {name: case.values[name] for name in case.forall}
    assert {name: record.indices[name] for name in used} == used
    assert {name: record.shape(name) for name in case.outputs} == case.expected
    given = {name: case.dtypes[name] for name, shape in case.shapes.items() if shape is not None}
    assert op.checks.output_shapes(op, case.shapes, given) == case.expected
    assert op.checks.output_shapes(op, case.shapes) == case.expected


def assert_traced_solution(case: Case, op: Instance) -> None:
    """They come back from symbolic sizes too."""
    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        dynamic = [DimDynamic.DYNAMIC] * tensor.dim()
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic))

    record = op.check({name: t if t is None else fake(t) for name, t in made(case).items()})
    found = {name: tuple(map(int, record.shape(name))) for name in case.outputs}
    assert found == case.expected


Change = tuple[str, dict[str, Any], type[SignatureError]]
"""The declaration that an error must name, the tensors that cause it, and its class."""


def changed(case: Case, name: str, shape: tuple[int, ...] | None, dtype: str | None = None) -> Any:
    """The tensors of a case with another shape, dtype or presence of one."""
    tensors = made(case)
    chosen = getattr(torch, dtype or case.dtypes[name])
    tensors[name] = None if shape is None else torch.empty(shape, dtype=chosen)
    return tensors


def longer(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])


def changes(case: Case, op: Instance) -> list[Change]:
    """One change for every check that one change breaks."""
    found: list[Change] = []
    point = {"flag": case.values["flag"], "o": case.shapes.get("o") is not None}
    for step in op.decided.call:
        tensor = getattr(step, "tensor", None)
        if tensor is None or tensor.role != "input" or not step.guard.holds(point):
            continue
        shape = case.shapes[tensor.name]
        if shape is None:
            continue
        path = f"inputs.{tensor.name}"
        inexact = isinstance(step, SolveAxis) and step.scale > 1
        if isinstance(step, CheckAxis) or inexact:
            new = longer(shape, axis_of(case, step.position, len(shape)))
            found.append((f"{path}.shape", changed(case, tensor.name, new), SignatureError))
        elif isinstance(step, CheckSplice) and case.values[step.value.id]:
            new = longer(shape, run_start(case, step, len(shape)))
            found.append((f"{path}.shape", changed(case, tensor.name, new), SignatureError))
        elif isinstance(step, CheckRank) and not step.open:
            found.append((f"{path}.shape", changed(case, tensor.name, (*shape, 1)), SignatureError))
        elif isinstance(step, SolveDtype | CheckDtype):
            wrong = changed(case, tensor.name, shape, "complex64")
            found.append((f"{path}.dtype", wrong, SignatureError))
    return found + presence_changes(case)


def axis_of(case: Case, position: Any, rank: int) -> int:
    count = position.fixed + sum(len(case.values[splice.id]) for splice in position.splices)
    return count if position.side == "left" else rank - 1 - count


def run_start(case: Case, step: CheckSplice, rank: int) -> int:
    length = len(case.values[step.value.id])
    at = axis_of(case, step.position, rank)
    return at if step.position.side == "left" else at + 1 - length


def presence_changes(case: Case) -> list[Change]:
    """Required inputs left out, a conditional one against its condition, and no tensors at all."""
    found: list[Change] = []
    for name in case.inputs:
        if name[0] in "xtu":
            found.append((f"inputs.{name}", changed(case, name, None), SignatureTypeError))
            wrong = made(case) | {name: [1.0]}
            found.append((f"inputs.{name}", wrong, SignatureTypeError))
    if "w" in case.inputs:
        shape = None if case.values["flag"] else (1,)
        found.append(('inputs.w.optional "flag"', changed(case, "w", shape), SignatureError))
    return found


def assert_rejected(case: Case, op: Instance) -> None:
    """Each change is rejected by an error that names the declaration there."""
    for declaration, tensors, error in changes(case, op):
        with pytest.raises(SignatureError) as caught:
            op.check(tensors)
        assert type(caught.value) is error, declaration
        assert caught.value.declaration.partition(" ")[0] == declaration.partition(" ")[0]
        assert caught.value.phase == "call"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_signatures(chunk: int) -> None:
    for seed in range(chunk, CASES, CHUNKS):
        case = draw(seed)
        try:
            op = Instance(case)
            assert_solution(case, op)
            assert_rejected(case, op)
            if seed % 10 == 0:
                assert_traced_solution(case, op)
        except Exception as error:
            raise AssertionError(f"case {seed}: {case.spec()} with {case.values}") from error


def test_the_cases_are_varied() -> None:
    """What is drawn covers families, runs, optional inputs, tensors given at construction."""
    cases = [draw(seed) for seed in range(200)]
    shapes = [t["shape"] for case in cases for t in case.inputs.values()]
    assert any("Mat[" in shape for shape in shapes)
    assert any("*R" in shape for shape in shapes)
    assert any("ceil_div" in shape for shape in shapes)
    assert any("held" in case.params for case in cases)
    assert {case.shapes.get("o") is None for case in cases} == {True, False}
    assert {case.shapes.get("w", 0) is None for case in cases} == {True, False}
