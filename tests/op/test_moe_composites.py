"""Composition proved on ops of the library: two grouped products, and a shared expert."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from tileops import backend
from tileops.elementwise import SiluAndMulFwdOp
from tileops.errors import OpNotAvailableError
from tileops.gemm import GemmFwdOp
from tileops.moe import (
    ContiguousLayoutSpec,
    FusedMoEFwdOp,
    MoEExpertMLPFwdOp,
    MoEGroupedGemmFwdOp,
    SharedExpertMLPFwdOp,
    reference,
)
from tileops.testing.compiling import Graphs

LAYOUT = ContiguousLayoutSpec.tight_physical_psum()


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def expert_call():
    """Rows of two experts, their weights, and the metadata."""
    return draw(5, 8), draw(2, 12, 8), draw(2, 8, 6), torch.tensor([2, 5], dtype=torch.int32)


def shared_call():
    return draw(3, 8), draw(12, 8), draw(8, 6)


@pytest.fixture(params=["experts", "shared"])
def case(request):
    """A composite, a call of it, and what its reference gives."""
    if request.param == "experts":
        call = expert_call()
        return MoEExpertMLPFwdOp(LAYOUT), call, reference.moe_expert_mlp(*call, layout=LAYOUT)
    return SharedExpertMLPFwdOp(), shared_call(), reference.shared_expert_mlp(*shared_call())


def test_stages_are_held_at_construction_with_their_parameters():
    op = MoEExpertMLPFwdOp(LAYOUT, "gelu_and_mul", target=backend.BUILTIN)
    gate_up, down = op.held_delegates()
    assert (gate_up.activation, down.activation) == ("gelu_and_mul", None)
    assert gate_up.layout is down.layout is LAYOUT
    assert {sub.target for sub in (gate_up, down)} == {backend.BUILTIN}
    assert [type(sub) for sub in SharedExpertMLPFwdOp().held_delegates()] == [
        GemmFwdOp, SiluAndMulFwdOp, GemmFwdOp,
    ]  # fmt: skip


def test_records_are_filed_by_stage(case):
    op, call, expected = case
    torch.testing.assert_close(op(*call), expected)
    stages = op.last_call.stages
    assert list(stages) == list(op.delegate_types)
    assert all(len(records) == 1 for records in stages.values())
    *_, last = stages.values()
    assert last[0].tensors[list(last[0].tensors)[-1]] == op.last_call.tensors["output"]
    held = dict(zip(stages, op.held_delegates(), strict=True))
    assert all(sub.last_call is stages[stage][0] for stage, sub in held.items())


def test_out_is_written_by_the_last_stage():
    op, call, out = MoEExpertMLPFwdOp(LAYOUT), expert_call(), torch.empty(5, 8)
    assert op(*call, out=out) is out
    torch.testing.assert_close(out, reference.moe_expert_mlp(*call, layout=LAYOUT))
    (down,) = op.last_call.stages["down"]
    assert down.has_out
    assert op.last_call.has_out


def test_a_composite_has_no_operator_and_traces_into_those_of_its_stages(case):
    op, call, expected = case
    assert type(op).compile_op_names == ()
    called = []

    def nodes(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend=nodes)
    torch.testing.assert_close(compiled(*call), expected)
    names = [type(sub).compile_op_names[0] for sub in op.held_delegates()]
    wanted = [f"{name.replace('::', '.')}.default" for name in names]
    assert [name for name in called if "getitem" not in name] == wanted
    assert op._last_call is None
    assert all(sub.last_call for sub in op.held_delegates())
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("hidden", "width", "graphs"), [(16, 8, 1), (128, 256, 2)], ids=["one-way", "two-ways"]
)
def test_one_graph_serves_all_numbers_of_tokens_that_go_one_way(hidden, width, graphs):
    """Few routes go one by one where the layer is of a form that such kernels take."""
    op, found, experts = FusedMoEFwdOp(2), Graphs(), 4
    weights = draw(experts, 2 * width, hidden), draw(experts, hidden, width)
    calls = [(draw(t, hidden), draw(t, experts), *weights) for t in (2, 3, 4, 5, 9, 33)]
    for call in (calls[0], calls[-1]):
        op(*call)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend=found)
    for call in calls:
        for tensor in call[:2]:
            torch._dynamo.mark_dynamic(tensor, 0)
        torch.testing.assert_close(compiled(*call), op(*call))
    assert len(found.calls) == graphs


def test_meta_tensors_complete_every_stage(case):
    op, call, expected = case
    returned = op(*(tensor.to("meta") for tensor in call))
    assert returned.shape == expected.shape
    assert all(len(records) == 1 for records in op.last_call.stages.values())
    assert op.serving_target is None
    assert not list(op.iter_kernels())


def test_a_target_without_a_builder_of_the_composite_serves_its_stages(case):
    op, call, expected = case
    stages = {sub.__class__.__name__ for sub in op.held_delegates()}
    served = []

    def build(*specs, **params):
        served.append(params)
        return lambda *tensors, **_: "unused"

    for name in stages:
        backend.register_kernel_builder(op=name, target="east", build_kernel=build)
    fresh = type(op)(*([LAYOUT] if stages == {"MoEGroupedGemmFwdOp"} else []), target="east")
    with pytest.raises(TypeError):
        fresh(*call)  # what the builder's kernel returns is no tensor
    assert served
    assert fresh.serving_target is None
    torch.testing.assert_close(op(*call), expected)


def test_an_undo_reaches_the_stages(monkeypatch, case):
    op, call, expected = case
    last = op.held_delegates()[-1]
    monkeypatch.setattr(last, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        op(*call)
    for part in (op, *op.held_delegates()):
        assert part.serving_target is None
        assert not any(part.built_entries(name) for name in part.interfaces)
    monkeypatch.undo()
    torch.testing.assert_close(op(*call), expected)
    assert {part.serving_target for part in (op, *op.held_delegates())} == {backend.BUILTIN}


def test_a_later_failure_undoes_nothing_that_an_earlier_call_selected(monkeypatch, case):
    op, call, _ = case
    op(*call)
    record = op.last_call
    monkeypatch.setattr(op.held_delegates()[-1], "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        op(*call)
    assert op.last_call is record
    assert {part.serving_target for part in (op, *op.held_delegates())} == {backend.BUILTIN}


def test_a_sub_op_that_is_not_held_fails_the_call(monkeypatch):
    op, stray = MoEExpertMLPFwdOp(LAYOUT), MoEGroupedGemmFwdOp(LAYOUT)
    held = op.held_delegates()
    monkeypatch.setattr(op, "delegate_for", lambda stage, _: stray if stage == "down" else held[0])
    with pytest.raises(RuntimeError) as raised:
        op(*expert_call())
    assert str(raised.value) == (
        "MoEGroupedGemmFwdOp completed a call inside a call of MoEExpertMLPFwdOp, which does not "
        "hold it: hold it through delegate_for"
    )
    assert op.serving_target is None


def test_tuned_mode_reaches_the_kernels_of_the_stages(case):
    op, call, _ = case
    op.request_tune()
    op(*call)
    assert all(sub._tune_requested for sub in op.held_delegates())
    kernels = list(op.iter_kernels())
    assert len(kernels) == len(op.held_delegates())
    assert all(kernel._tuning_asked for kernel in kernels)


def test_the_kernels_are_those_of_the_stages_in_stage_order(case):
    op, call, _ = case
    op(*call)
    own = [kernel for sub in op.held_delegates() for kernel in sub.iter_kernels()]
    assert list(op.iter_kernels()) == own


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_copies_hold_copies_of_the_stages(case, duplicate):
    op, call, expected = case
    op(*call)
    twin = duplicate(op)
    assert not {id(sub) for sub in twin.held_delegates()} & {id(s) for s in op.held_delegates()}
    torch.testing.assert_close(twin(*call), expected)


def test_a_target_that_serves_the_whole_leaves_no_stage_records():
    call = expert_call()
    backend.register_kernel_builder(
        op="MoEExpertMLPFwdOp",
        target="west",
        build_kernel=lambda *specs, layout, activation: (
            lambda *tensors: reference.moe_expert_mlp(
                *tensors, layout=layout, activation=activation
            )
        ),
    )
    op = MoEExpertMLPFwdOp(LAYOUT, target="west")
    op(*call)
    assert op.serving_target == "west"
    assert op.last_call.stages == {"gate_up": (), "down": ()}
    assert op.eval_roofline() == (5 * (6 * 8 * 6 + 6 * 6), op.last_call.derived_bytes())


def test_a_target_without_builders_is_refused_by_the_first_stage():
    backend.register_kernel_builder(op="GemmFwdOp", target="north", build_kernel=print)
    op = MoEExpertMLPFwdOp(LAYOUT, target="north")
    with pytest.raises(OpNotAvailableError, match="MoEGroupedGemmFwdOp"):
        op(*expert_call())
    assert op.serving_target is None
