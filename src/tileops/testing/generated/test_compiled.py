"""Cold compilation with `fullgraph=True` of every op that has tensor inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor

from tileops.testing.calling import (
    assert_close,
    buffer,
    class_of,
    construct,
    expected,
    inputs,
    results,
    spec_of,
)
from tileops.testing.drawing import DrawnCall, drawn


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def calls(op: str) -> list[DrawnCall]:
    """The drawn calls in dtypes that torch's own checks can compute with."""
    return [c for c in drawn(op) if not any("float8" in t.dtype for t in c.tensors.values())]


def branch(call: DrawnCall) -> tuple[object, ...]:
    """The effect branch that a call takes: inputs written, whether `out` is passed, outputs."""
    return call.written, bool(buffer(call)), tuple(call.outputs)


def branches(op: str) -> list[DrawnCall]:
    """One call for each effect branch."""
    return list({branch(call): call for call in calls(op)}.values())


def operator_of(call: DrawnCall) -> str:
    """The operator of a call's effect branch: the one whose name has nothing beside its marks."""
    absent = spec_of(call.op).signature.outputs.keys() - set(call.outputs)
    marks = [f"_writes_{name}" for name in call.written] + [f"_without_{name}" for name in absent]
    marks += [f"_{name}" for name in buffer(call)]
    names: tuple[str, ...] = class_of(call.op).compile_op_names
    return min((name for name in names if all(mark in name for mark in marks)), key=len)


class Nodes:
    """A compiler backend that runs the graph as it is and keeps the names of what it calls."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        self.names += [name.removesuffix(".default") for name in called if "getitem" not in name]
        return graph


def test_operators_exist_exactly_where_tensors_come_in(op: str) -> None:
    spec, names = spec_of(op), class_of(op).compile_op_names
    assert bool(names) == (bool(spec.signature.inputs) and spec.composition is None)
    for name in names:
        namespace, _, operator = name.partition("::")
        assert hasattr(getattr(torch.ops, namespace), operator)


def test_the_graph_holds_the_operator_alone(op: str) -> None:
    for call in branches(op):
        if not class_of(op).compile_op_names:
            continue
        nodes = Nodes()
        compiled = torch.compile(construct(call), fullgraph=True, backend=nodes)
        compiled(**inputs(call), **buffer(call))
        own = {name.replace("::", ".") for name in class_of(op).compile_op_names}
        assert len(nodes.names) == 1, nodes.names
        assert own.issuperset(nodes.names)


def test_cold_compilation_gives_the_same(op: str) -> None:
    for call in branches(op):
        if not class_of(op).compile_op_names:
            continue
        given, out = inputs(call), buffer(call)
        wanted = expected(call, given)
        compiled = torch.compile(construct(call), fullgraph=True, backend="aot_eager")
        returned = compiled(**given, **out)
        assert_close(call, given, returned, wanted)
        outputs = spec_of(op).signature.outputs.values()
        for output, found in zip(outputs, results(op, returned), strict=True):
            if output.alias in call.written:
                assert found is given[output.alias]
            elif out and output.buffered:
                assert found is out["out"]


def positive(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """No number below 0, of which some ops make NaN."""
    return {name: t.abs() if t.is_floating_point() else t for name, t in given.items()}


def holds_nan(result: Tensor | None) -> bool:
    return result is not None and bool(result.isnan().any())


def test_operators_pass_opcheck(op: str) -> None:
    """Calls that give NaN are passed over: for opcheck, NaN differs from itself."""
    if not class_of(op).compile_op_names:
        return
    checked = set()
    for call in reversed(calls(op)):
        if branch(call) in checked:
            continue
        given, instance = positive(inputs(call)), construct(call)
        if any(map(holds_nan, results(op, instance(**given)))):
            continue
        checked.add(branch(call))
        namespace, _, operator = operator_of(call).partition("::")
        packet = getattr(getattr(torch.ops, namespace), operator)
        ordered = [given.get(name) for name in spec_of(op).signature.inputs]
        written = (tensor.zero_() for tensor in buffer(call).values())
        torch.library.opcheck(packet.default, (*ordered, *written, instance._instance_key))
    assert checked == set(map(branch, calls(op)))
