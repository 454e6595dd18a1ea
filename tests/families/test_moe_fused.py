"""Whole routed layers: both ways of computing experts, the shared expert, counts."""

from __future__ import annotations

import pytest
import torch

from tileops.errors import SignatureError
from tileops.gemm.kernels import blocks
from tileops.moe import (
    FusedMoEExpertsFwdOp,
    FusedMoEFwdOp,
    FusedMoESharedExpertFwdOp,
    IndexedExpertMLPFwdOp,
    reference,
)
from tileops.moe.kernels.indexed import IndexedExpertMLPCall, IndexedExpertMLPPortableKernel


def routed(draw, tokens, *, experts=4, top_k=2, hidden=128, width=256, dtype=torch.float32):
    """`output` and the inputs of experts whose routes are known."""
    scores = draw(tokens, experts)
    weights, ids = scores.sigmoid().topk(top_k)
    return (
        torch.full((tokens, hidden), torch.nan, dtype=dtype),
        draw(tokens, hidden, dtype=dtype),
        draw(experts, 2 * width, hidden, dtype=dtype, scale=hidden**-0.5),
        draw(experts, hidden, width, dtype=dtype, scale=width**-0.5),
        weights,
        ids.int(),
    )


def layer(draw, tokens, *, experts=6, hidden=32, width=24, shared=0, dtype=torch.float32):
    """The inputs of a whole layer."""
    tensors = (
        draw(tokens, hidden, dtype=dtype),
        draw(tokens, experts),
        draw(experts, 2 * width, hidden, dtype=dtype, scale=hidden**-0.5),
        draw(experts, hidden, width, dtype=dtype, scale=width**-0.5),
    )
    if not shared:
        return tensors
    gate_up = draw(2 * shared, hidden, dtype=dtype, scale=hidden**-0.5)
    return *tensors, None, gate_up, draw(hidden, shared, dtype=dtype, scale=shared**-0.5)


BOUND = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("tokens", [1, 4, 5, 30])
def test_both_ways_of_computing_experts_agree(draw, close, dtype, tokens):
    tensors = routed(draw, tokens, dtype=dtype)
    wanted = tensors[0].clone()
    reference.fused_moe_experts(wanted, *tensors[1:], routed_scaling_factor=2.5)
    op, by_route = FusedMoEExpertsFwdOp(2.5), IndexedExpertMLPFwdOp(2.5)
    assert op(*tensors) is None
    close(tensors[0], wanted, BOUND[dtype])
    assert bool(op.last_call.stages["indexed_small_route"]) == (tokens <= 4)
    assert by_route(*tensors) is None
    close(tensors[0], wanted, BOUND[dtype])
    assert op.eval_roofline() == by_route.eval_roofline()
    assert op.roof_key() == by_route.roof_key()


@pytest.mark.parametrize("gathered", [1, 1 << 28])
def test_copied_weights_give_what_routes_one_by_one_give(monkeypatch, draw, close, gathered):
    monkeypatch.setattr(blocks, "GATHERED_BYTES", gathered)
    _, x, gate_up, down, _, ids = routed(draw, 3)
    kernel = IndexedExpertMLPPortableKernel(
        IndexedExpertMLPCall(4, 2, 6, 128, 256, 1.0, torch.float32)
    )
    rows = x.repeat_interleave(2, 0), gate_up, down, ids.flatten()
    close(kernel._with_copies(*rows), kernel._by_route(*rows), 1e-5)


def test_a_small_call_builds_no_permutation(draw):
    op = FusedMoEExpertsFwdOp()
    op(*routed(draw, 2))
    assert [type(sub).__name__ for sub in op.held_delegates()] == [
        "MoEExpertMLPFwdOp", "MoEPostPermuteFwdOp", "IndexedExpertMLPFwdOp",
    ]  # fmt: skip
    op(*routed(draw, 30))
    op(*routed(draw, 30, experts=5))
    permutations = [sub for sub in op.held_delegates() if hasattr(sub, "num_local_experts")]
    assert [sub.num_local_experts for sub in permutations] == [4, 5]


@pytest.mark.parametrize(
    "extra", [{"activation": "gelu_and_mul"}, {"hidden": 64}, {"width": 128}], ids=str
)
def test_what_routes_one_by_one_do_not_serve_is_permuted(draw, close, extra):
    activation = {key: value for key, value in extra.items() if key == "activation"}
    tensors = routed(draw, 2, **{k: v for k, v in extra.items() if k != "activation"})
    wanted = tensors[0].clone()
    reference.fused_moe_experts(wanted, *tensors[1:], **activation)
    op = FusedMoEExpertsFwdOp(**activation)
    op(*tensors)
    close(tensors[0], wanted, 1e-5)
    assert op.last_call.stages["pre_permute"]


def test_repeated_ids_and_an_output_that_is_the_input(draw, close):
    _, x, gate_up, down, weights, _ = routed(draw, 3)
    ids = torch.tensor([[1, 1], [3, 1], [3, 3]], dtype=torch.int32)
    wanted = torch.empty_like(x)
    reference.fused_moe_experts(wanted, x, gate_up, down, weights, ids)
    for op in (FusedMoEExpertsFwdOp(), IndexedExpertMLPFwdOp()):
        alias = x.clone()
        op(alias, alias, gate_up, down, weights, ids)
        close(alias, wanted, 1e-5)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("top_k", [1, 2, 6])
def test_layers(draw, close, dtype, top_k):
    tensors = layer(draw, 9, dtype=dtype)
    params = {"top_k": top_k, "renormalize": True, "routed_scaling_factor": 1.5}
    op = FusedMoEFwdOp(**params)
    close(op(*tensors), reference.fused_moe(*tensors, **params), BOUND[dtype])
    assert [len(records) for records in op.last_call.stages.values()] == [1, 1]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_shards_of_the_shared_expert_add_up(draw, close, ranks):
    tensors = layer(draw, 5, shared=16)
    ops = [FusedMoESharedExpertFwdOp(2, tp_size=ranks, tp_rank=rank) for rank in range(ranks)]
    parts = [op(*tensors) for op in ops]
    whole = reference.shared_expert_mlp(tensors[0], *tensors[-2:])
    close(sum(shared for shared, _ in parts), whole, 1e-5)
    for op, (shared, of_routes) in zip(ops, parts, strict=True):
        wanted = reference.fused_moe_shared_expert(
            *tensors, top_k=2, tp_size=ranks, tp_rank=op.tp_rank
        )
        close(shared, wanted[0], 1e-5)
        close(of_routes, wanted[1], 1e-5)
    flops, moved = ops[0].eval_roofline()
    width = 16 // ranks
    lone = FusedMoESharedExpertFwdOp(2)
    shared, _ = lone(*tensors[:4])
    assert shared is None
    assert lone.last_call.stages["shared_expert"] == ()
    others = lone.eval_roofline()
    assert flops - others[0] == 5 * (6 * 32 * width + 6 * width)
    assert moved - others[1] == 4 * (3 * 32 * width + 5 * 32)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tp_size": 3}, "S % tp_size == 0"),
        ({"activation": "gelu_and_mul"}, "activation == 'silu_and_mul'"),
    ],
)
def test_shared_weights_that_cannot_be_used_are_refused(draw, params, message):
    with pytest.raises(SignatureError, match=message):
        FusedMoESharedExpertFwdOp(2, **params)(*layer(draw, 2, shared=16))


def test_one_shared_weight_is_refused(draw):
    tensors = layer(draw, 2, shared=16)
    with pytest.raises(SignatureError, match="shared_w_down"):
        FusedMoESharedExpertFwdOp(2)(*tensors[:-1])
    with pytest.raises(SignatureError, match="shared_w_down"):
        FusedMoESharedExpertFwdOp(2)(*tensors[:5], None, tensors[-1])


def test_named_experts_alone_are_read(draw):
    hidden, gating, gate_up, down = layer(draw, 2)
    gating[:] = torch.tensor([9.0, 8, 0, 0, 0, 0])
    op = FusedMoEFwdOp(2)
    op(hidden, gating, gate_up, down)
    routing = 2 * (2 * 6 + 3 * 6 + 6 + 2)
    experts = 4 * (6 * 32 * 24 + 6 * 24) + 2 * 4 * 32
    moved = 4 * (2 * 2 * 32 + 2 * 6 + 2 * 3 * 24 * 32)
    assert op.eval_roofline() == (routing + experts, moved)
