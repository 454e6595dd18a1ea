"""CUDA graphs of every TileLang kernel: what a warm call allocates, capture, replay, Inductor's.

Each kernel runs on the first call, from small to large, for which its op chooses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tileops import Op
from tileops._core.signature.discriminants import OUT
from tileops._core.workload.rows import cases_of
from tileops._core.workload.tensors import make_arguments
from tileops.testing.calling import class_of, parameters, placed, results, same, spec_of
from tileops.testing.choice import runnable_ops
from tileops.testing.drawing import DrawnCall, drawn
from tileops.testing.refusals import unrefused
from tileops.testing.shrinking import shrunk_rows

pytestmark = pytest.mark.gpu

MOST_BYTES = 1 << 31
"""Inputs of a call; several processes share the device."""

Warm = tuple[Op, dict[str, Tensor]]
"""An op that has served a call, and the inputs of that call."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`name` and `key` run over the TileLang kernels of the chosen ops."""
    ops = runnable_ops(metafunc.config.getoption("tileops_ops", None))
    metafunc.parametrize(("name", "key"), [(op, key) for op in ops for key in tilelang_keys(op)])


def tilelang_keys(op: str) -> Iterator[str]:
    """The implementations of an op that run a TileLang program."""
    for key, kernel in class_of(op).kernel_types.items():
        if kernel.needs_tilelang:
            yield key


@pytest.fixture
def warm(name: str, key: str) -> Warm:
    """An instance that the kernel has served once."""
    for op, given in candidates(name):
        if key in {step.key for step in op.explain(**given).interfaces}:
            op(**copied(given))
            torch.cuda.synchronize()
            return op, given
    pytest.fail(f"{name} chooses {key} for none of its rows, small or whole")


def candidates(name: str) -> Iterator[Warm]:
    """Calls on the device: small ones drawn from the spec, then the rows as they are."""
    for call in unrefused((*shrunk_rows(name).values(), *drawn(name)), "cuda"):
        if not call.point.get(OUT):
            yield class_of(name)(**{**parameters(call), **on_device(call)}), placed(call, "cuda")
    spec = spec_of(name)
    cases = [(sum(t.nbytes for t in case.tensors.values()), case) for case in cases_of(spec)]
    for nbytes, case in sorted(cases, key=lambda pair: pair[0]):
        if nbytes <= MOST_BYTES:
            made = make_arguments(spec, case, "cuda")
            given = {input: tensor for input, tensor in made.inputs.items() if tensor is not None}
            yield class_of(name)(**made.params), given


def on_device(call: DrawnCall) -> dict[str, str]:
    """The parameter that names a device, where there is one."""
    return {"device": "cuda"} if "device" in spec_of(call.op).signature.params else {}


def copied(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same data in other memory."""
    return {name: tensor.clone() for name, tensor in given.items()}


def renewed(op: Op, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Other data where any will do: contents that mean something stay."""
    declared = op._spec.signature.inputs
    return {
        name: tensor.flip(-1)
        if tensor.dim() and tensor.is_floating_point() and declared[name].values is None
        else tensor.clone()
        for name, tensor in given.items()
    }


def refill(memory: Mapping[str, Tensor], data: Mapping[str, Tensor]) -> None:
    """Put data where a graph reads it."""
    for name, tensor in memory.items():
        tensor.copy_(data[name])


def assert_same(op: Op, found: Any, wanted: Any) -> None:
    """Equal to the last bit: the same program ran on the same data."""
    name = type(op).__name__
    for one, other in zip(results(name, found), results(name, wanted), strict=True):
        assert same(one, other)


def test_a_warm_call_allocates_its_outputs_alone(warm: Warm) -> None:
    op, given = warm
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    returned = results(type(op).__name__, op(**given))
    allocated = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    own = {tensor.data_ptr() for tensor in given.values()}
    assert allocated == sum(r is not None and r.data_ptr() not in own for r in returned)


def test_a_call_is_captured_and_replayed(warm: Warm) -> None:
    op, given = warm
    memory, graph = copied(given), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = op(**memory)
    for data in (given, renewed(op, given)):
        refill(memory, data)
        graph.replay()
        eager = copied(data)
        assert_same(op, captured, op(**eager))
        for name, tensor in memory.items():
            assert same(tensor, eager[name]), name


def test_reduced_overhead_gives_the_same(warm: Warm) -> None:
    op, given = warm
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(op, fullgraph=True, mode="reduce-overhead")
    for data in (given, given, renewed(op, given), given):
        torch.compiler.cudagraph_mark_step_begin()
        assert_same(op, compiled(**copied(data)), op(**copied(data)))
    if not op.last_call.written:
        assert not torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    torch._dynamo.reset()
