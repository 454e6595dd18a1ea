"""Objects injected into the fused layers: experts, exchanges of tokens, and what they exclude."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from toys import define

from tileops import backend, moe
from tileops.errors import OpNotAvailableError, SignatureTypeError
from tileops.moe import (
    FusedMoEExpertsFwdOp,
    FusedMoEFwdOp,
    FusedMoESharedExpertFwdOp,
    IndexedExpertMLPFwdOp,
    reference,
)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


class Doubling(FusedMoEExpertsFwdOp):
    """Experts whose reduction is their own: it doubles."""

    class Reduce(moe.WeightedReduce):
        def apply(self, output, expert_out, topk_weights, topk_ids):
            output.copy_(2 * expert_out)

    def make_weighted_reduce(self):
        return self.Reduce()


ROUTE_ROWS = {
    "family": "moe",
    "status": "spec-only",
    "signature": {
        "forall": {"R": "Dim", "T": "Dim", "K": "Dim", "E": "Dim", "H": "Dim", "F": "Dim"},
        "inputs": {
            "output": {
                "dtype": "float32", "shape": "[R, H]", "mutated": True, "write_only": True,
            },
            "hidden_states": {"dtype": "float32", "shape": "[T, H]"},
            "w_gate_up": {"dtype": "float32", "shape": "[E, 2 * F, H]"},
            "w_down": {"dtype": "float32", "shape": "[E, H, F]"},
            "topk_weights": {"dtype": "float32", "shape": "[T, K]"},
            "topk_ids": {"dtype": "int32", "shape": "[T, K]"},
            "scale": {"dtype": "float32", "shape": "[1]", "optional": True},
        },
        "outputs": {},
        "shape_rules": ["R == T * K"],
    },
    "workloads": [{"R": 2, "T": 1, "K": 2, "E": 2, "H": 2, "F": 1, "label": "row"}],
    "roofline": {"flops": 0},
}  # fmt: skip


class SumOfRoutes(moe.WeightedReduce):
    """Weights the rows of a token's routes."""

    def apply(self, output, expert_out, topk_weights, topk_ids):
        rows = expert_out.view(*topk_weights.shape, -1)
        output.copy_((rows * topk_weights[..., None]).sum(1))


def route_rows(**members):
    """Experts that leave one row for each route, multiplied by a scale if they take one."""

    def forward(self, output, hidden_states, w_gate_up, w_down, topk_weights, topk_ids, scale=None):
        rows = hidden_states.repeat_interleave(topk_ids.shape[1], 0)
        ones, ids = torch.ones(len(rows), 1), topk_ids.reshape(-1, 1)
        reference.fused_moe_experts(output, rows, w_gate_up, w_down, ones, ids)
        if scale is not None:
            output.mul_(scale)

    return define(
        "RouteRows",
        ROUTE_ROWS,
        base=moe.FusedMoEExpertsModular,
        forward=forward,
        activation="silu_and_mul",
        output_shape=lambda self, tokens, hidden: (tokens * 2, hidden),
        make_weighted_reduce=lambda self: SumOfRoutes(),
        **members,
    )


class Quantising(moe.MoEPrepareAndFinalizeNoDPEP):
    """Hands out a scale."""

    def prepare(self, hidden, topk_weights, topk_ids, num_experts):
        return moe.PrepareResult(hidden, torch.tensor([3.0]), topk_weights, topk_ids)


class Dropping(moe.FusedMoEPrepareAndFinalize):
    """Sends every other token to another rank, whose result is zero."""

    def prepare(self, hidden, topk_weights, topk_ids, num_experts):
        assert num_experts == 6
        parts = (hidden, topk_weights, topk_ids)
        kept, weights, ids = (part[::2].contiguous() for part in parts)
        return moe.PrepareResult(kept, None, weights, ids)

    def finalize(self, output, expert_out, topk_weights, topk_ids, weight_and_reduce):
        own = torch.empty_like(expert_out)
        weight_and_reduce.apply(own, expert_out, topk_weights, topk_ids)
        output.zero_()[::2] = own


@pytest.fixture
def expected():
    """The inputs of a layer, and what its reference gives."""
    generator = torch.Generator().manual_seed(7)
    shapes = (5, 32), (5, 6), (6, 48, 32), (6, 32, 24)
    tensors = [torch.randn(shape, generator=generator) * 0.3 for shape in shapes]
    return tensors, reference.fused_moe(*tensors, top_k=2)


def test_experts_may_leave_a_row_for_each_route(expected):
    tensors, wanted = expected
    op = FusedMoEFwdOp(2, experts=route_rows()())
    close(op(*tensors), wanted)
    (record,) = op.last_call.stages["routed_experts"]
    assert record.shape("output") == (10, 32)
    assert op.eval_roofline()[1] == op.last_call.derived_bytes()  # 10 routes, 6 experts


def test_injected_experts_reduce_by_themselves(expected):
    tensors, wanted = expected
    experts = Doubling()
    op = FusedMoEFwdOp(2, experts=experts)
    close(op(*tensors), 2 * wanted)
    assert op.held_delegates()[1] is experts
    assert op.composition_only
    (record,) = op.last_call.stages["routed_experts"]
    assert record is experts.last_call
    built = FusedMoEFwdOp(2)
    built(*tensors)
    assert op.eval_roofline() == built.eval_roofline()


def test_a_layer_is_explained_to_its_end(expected):
    tensors, _ = expected
    for experts in (None, Doubling(), route_rows()()):
        op = FusedMoEFwdOp(2, experts=experts)
        report = op.explain(*tensors)
        assert (report.end, report.error) == (None, None)
        assert [step.stage for step in report.steps] == ["route_select", "routed_experts"]


def test_an_exchange_may_drop_tokens(expected):
    tensors, wanted = expected
    op = FusedMoEFwdOp(2, prepare_finalize=Dropping())
    found = op(*tensors)
    close(found[::2], wanted[::2])
    assert not found[1::2].any()
    assert op.composition_only
    assert not FusedMoEFwdOp(2).composition_only


def test_the_experts_decide_the_activation_and_the_factor():
    experts = FusedMoEExpertsFwdOp(2.5, activation="gelu_and_mul")
    op = FusedMoEFwdOp(2, experts=experts)
    assert (op.activation, op.routed_scaling_factor) == ("gelu_and_mul", 2.5)
    same = FusedMoESharedExpertFwdOp(2, routed_scaling_factor=2.5, experts=experts)
    assert same.routed_scaling_factor == 2.5
    with pytest.raises(ValueError) as raised:
        FusedMoEFwdOp(2, activation="gelu_and_mul", experts=FusedMoEExpertsFwdOp())
    assert str(raised.value) == (
        "FusedMoEFwdOp: activation='gelu_and_mul' contradicts the injected FusedMoEExpertsFwdOp, "
        "whose activation is 'silu_and_mul'"
    )
    with pytest.raises(ValueError, match="routed_scaling_factor=3.0 contradicts"):
        FusedMoEFwdOp(2, routed_scaling_factor=3.0, experts=experts)


@pytest.mark.parametrize("cls", [FusedMoEFwdOp, FusedMoESharedExpertFwdOp])
def test_injected_objects_are_of_the_classes_that_can_be_used(cls):
    with pytest.raises(TypeError, match="experts must be a FusedMoEExpertsModular, got a Indexed"):
        cls(2, experts=IndexedExpertMLPFwdOp())
    with pytest.raises(TypeError, match="must be a FusedMoEPrepareAndFinalize, got a object"):
        cls(2, prepare_finalize=object())


class Misbehaving(moe.MoEPrepareAndFinalizeNoDPEP):
    """Hands out what it is told to."""

    def __init__(self, change=None, filled=None):
        self.change, self.filled = change, filled

    def prepare(self, hidden, topk_weights, topk_ids, num_experts):
        good = moe.PrepareResult(hidden, None, topk_weights, topk_ids)
        return self.change(good) if self.change else good

    def finalize(self, output, *rest):
        super().finalize(output, *rest)
        return self.filled


def changed(**fields):
    return lambda good: replace(good, **fields)


PREPARED = {
    "None": (lambda good: None, TypeError, "returned None, expected a PrepareResult"),
    "a tuple": (
        lambda good: (good.hidden_q, None), TypeError, "returned a tuple, expected a PrepareResult",
    ),
    "no tokens": (
        changed(hidden_q=None), TypeError, "returned None as hidden_q, expected a tensor",
    ),
    "a list of ids": (
        changed(topk_ids=[[0]]), TypeError, "returned a list as topk_ids, expected a tensor",
    ),
    "a number as scale": (
        changed(scale=1.0), TypeError, "returned a float as scale, expected a tensor or None",
    ),
    "another device": (
        lambda good: replace(good, hidden_q=good.hidden_q.to("meta")),
        ValueError,
        "returned hidden_q on meta, expected cpu",
    ),
    "another dtype": (
        lambda good: replace(good, topk_ids=good.topk_ids.long()),
        ValueError,
        "returned topk_ids of torch.int64, expected torch.int32",
    ),
    "a row": (
        lambda good: replace(good, topk_weights=good.topk_weights[0]),
        ValueError,
        "returned topk_weights of shape (2,), expected a matrix",
    ),
    "fewer tokens": (
        lambda good: replace(good, hidden_q=good.hidden_q[1:]),
        ValueError,
        "returned hidden_q (4, 32), topk_weights (5, 2), topk_ids (5, 2); expected (T, 32) and "
        "twice (T, K)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", PREPARED)
def test_exchange_that_hands_out_something_else(expected, which):
    (tensors, wanted), (change, error, text) = expected, PREPARED[which]
    op = FusedMoEFwdOp(2, prepare_finalize=Misbehaving(change))
    with pytest.raises(error) as caught:
        op(*tensors)
    assert type(caught.value) is error
    assert str(caught.value) == f"FusedMoEFwdOp: Misbehaving.prepare {text}"
    assert op.serving_target is None
    close(FusedMoEFwdOp(2, prepare_finalize=Misbehaving())(*tensors), wanted)


def test_exchange_that_returns_what_it_should_have_filled(expected):
    tensors, _ = expected
    op = FusedMoESharedExpertFwdOp(2, prepare_finalize=Misbehaving(filled=torch.ones(5, 32)))
    with pytest.raises(TypeError) as caught:
        op(*tensors)
    assert str(caught.value) == (
        "FusedMoESharedExpertFwdOp: Misbehaving.finalize returned a Tensor, expected None: it "
        "fills output"
    )


def fails(*_args):
    raise OSError("link down")


EXPERTS = {
    "no reduction": (
        {"make_weighted_reduce": lambda self: None}, TypeError,
        "make_weighted_reduce returned None, expected a WeightedReduce",
    ),
    "no shape": (
        {"output_shape": lambda self, tokens, hidden: None}, TypeError,
        "output_shape returned None, expected two lengths",
    ),
    "another shape": (
        {"output_shape": lambda self, tokens, hidden: [tokens + 1, hidden]}, ValueError,
        "output_shape returned (6, 32), expected (5, 32) or (10, 32)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", EXPERTS)
def test_experts_that_answer_something_else(expected, which):
    (tensors, _), (members, error, text) = expected, EXPERTS[which]
    cls = type("Odd", (FusedMoEExpertsFwdOp,), members)
    with pytest.raises(error) as caught:
        FusedMoEFwdOp(2, experts=cls())(*tensors)
    assert str(caught.value) == f"FusedMoEFwdOp: Odd.{text}"


def test_what_injected_objects_raise_passes_with_a_note(expected):
    tensors, _ = expected
    exchange = type("Broken", (moe.MoEPrepareAndFinalizeNoDPEP,), {"prepare": fails})
    experts = type("Odd", (FusedMoEExpertsFwdOp,), {"output_shape": fails})
    for op, note in (
        (FusedMoEFwdOp(2, prepare_finalize=exchange()), "in Broken.prepare"),
        (FusedMoEFwdOp(2, experts=experts()), "in Odd.output_shape"),
    ):
        with pytest.raises(OSError, match="link down") as caught:
            op(*tensors)
        assert caught.value.__notes__ == [f"{note}, which FusedMoEFwdOp called"]


def test_exchange_that_counts_as_false_is_used_all_the_same(expected):
    exchange = type("Empty", (Dropping,), {"__len__": lambda self: 0})()
    op = FusedMoEFwdOp(2, prepare_finalize=exchange)
    assert op.prepare_finalize is exchange
    assert op(*expected[0])[1::2].eq(0).all()


def test_exchange_is_settled_by_construction():
    exchange = Dropping()
    op = FusedMoEFwdOp(2, prepare_finalize=exchange)
    assert op.prepare_finalize is exchange
    with pytest.raises(AttributeError, match="prepare_finalize"):
        op.prepare_finalize = Quantising()
    assert isinstance(copy.deepcopy(op).prepare_finalize, Dropping)


def test_quantised_tokens_want_experts_that_take_them(expected):
    tensors, wanted = expected
    op = FusedMoEFwdOp(2, prepare_finalize=Quantising())
    with pytest.raises(ValueError) as raised:
        op(*tensors)
    assert str(raised.value) == (
        "FusedMoEFwdOp: Quantising quantised the tokens, but FusedMoEExpertsFwdOp does not take "
        "scaled input"
    )
    experts = route_rows(takes_scaled_input=True)()
    taking = FusedMoEFwdOp(2, prepare_finalize=Quantising(), experts=experts)
    close(taking(*tensors), 3 * wanted)


def test_a_builder_serves_the_layer_only_where_nothing_is_injected(expected):
    tensors, wanted = expected
    backend.register_kernel_builder(
        op="FusedMoEFwdOp",
        target="whole-layer",
        build_kernel=lambda *specs, **params: (
            lambda *tensors: reference.fused_moe(*tensors, **params)
        ),
    )
    served = FusedMoEFwdOp(2, target="whole-layer")
    torch.testing.assert_close(served(*tensors), wanted)
    with pytest.raises(RuntimeError, match="serves the op as a whole"):
        served.eval_roofline()
    parts = FusedMoEFwdOp(2, experts=Doubling(target=backend.BUILTIN), target="whole-layer")
    with pytest.raises(OpNotAvailableError, match="FusedTopKFwdOp"):
        parts(*tensors)


def test_layers_compile_once_their_stages_are_held(expected):
    tensors, wanted = expected
    op = FusedMoEFwdOp(2)
    op(*tensors)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*tensors), wanted)
    torch._dynamo.reset()


def test_what_is_no_plain_value_is_refused_by_its_declaration():
    with pytest.raises(SignatureTypeError, match="params.routed_scaling_factor"):
        FusedMoEFwdOp(2, routed_scaling_factor=torch.ones(2), experts=FusedMoEExpertsFwdOp())
