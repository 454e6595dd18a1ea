"""Lengths that have no value in a trace: broadcast, computed by a node, or needed all the same."""

from __future__ import annotations

import math

import pytest
import torch
from toys import body_op, compiled, tensor

from tileops.testing.compiling import Graphs


@pytest.fixture(autouse=True)
def cold():
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def unbacked(*shape):
    """A tensor of whose lengths a compiler may suppose nothing."""
    x = torch.randn(shape)
    torch._dynamo.decorators.mark_unbacked(x, list(range(x.dim())))
    return x


def joined():
    """An op of three tensors whose shapes are broadcast."""
    return body_op(
        "Joined",
        {name: tensor(shape=f"[*{name.upper()}]") for name in "abc"},
        {"y": tensor(shape="[*broadcast(A, B, C)]")},
        lambda self, a, b, c: a + b + c,
        None,
        {"forall": {"A": "Shape", "B": "Shape", "C": "Shape", "T": "DType[float32]"}},
        workloads=[
            {"A": [2], "B": [2], "C": [2], "dtype_cases": [{"T": "float32"}], "label": "row"}
        ],
    )()


def test_lengths_without_a_value_are_broadcast_in_one_graph():
    """0 and 1 among them, which need no graph of their own then."""
    op, graphs = joined(), Graphs("aot_eager")
    function = compiled(op, graphs)
    for a, b, c in (((3,), (3,), (3,)), ((1,), (1,), (0,)), ((5,), (1,), (5,)), ((1,), (4,), (4,))):
        given = unbacked(*a), unbacked(*b), unbacked(*c)
        assert torch.equal(function(*given), sum(given))
    assert len(graphs.calls) == 1
    with pytest.raises(Exception, match="expected|agree|Runtime assertion failed"):
        function(unbacked(3), unbacked(3), unbacked(4))


def test_lengths_that_a_node_computes_reach_an_op():
    op = joined()

    def function(x):
        found = x[x > 0]
        return op(found, found, found[:1])

    x = torch.tensor([1.0, -2.0, 3.0, 4.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert torch.equal(compiled(function)(x), function(x))


NEEDED = {
    "a primitive": ("mhc.expansion(Q)", {}, "Could not extract specialized integer"),
    "a choice by a choice": (
        "Q if half > 2 else 2",
        {"let": {"half": "Q // 2 if Q > 3 else Q"}},
        "Could not guard on data-dependent expression",
    ),
}


@pytest.mark.parametrize(("axis", "lets", "reason"), NEEDED.values(), ids=NEEDED)
def test_a_signature_that_needs_a_length_without_a_value_says_what_to_do(axis, lets, reason):
    forall = {"Q": "Dim", "T": "DType[float32]"}
    op = body_op(
        "Square",
        {"x": tensor(shape="[Q]")},
        {"y": tensor(shape=f"[{axis}]")},
        lambda self, x: x[:8] + 1 if lets else x[: math.isqrt(len(x) + 1) - 1] + 1,
        None,
        {"forall": forall, **lets},
        workloads=[{"Q": 8, "dtype_cases": [{"T": "float32"}], "label": "row"}],
    )()
    with pytest.raises(RuntimeError) as caught:
        compiled(op)(unbacked(8))
    assert (
        f"{type(op).__name__}: its signature depends on the length of an axis that has no value in "
        "a trace; mark the axis by mark_dynamic instead of mark_unbacked, or call the op outside "
        f"the graph where a node computes the length\n  {reason}"
    ) in str(caught.value)
    torch._dynamo.reset()
    broken = torch.compile(op, backend="aot_eager")
    assert broken(unbacked(8)).shape == ((8,) if lets else (2,))
