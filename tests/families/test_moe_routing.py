"""Routing and permutation: ties, biases, foreign ids, layouts with gaps, epilogues, counts."""

from __future__ import annotations

import pytest
import torch

from tileops.errors import SignatureError
from tileops.moe import (
    ContiguousLayoutSpec,
    FusedTopKFwdOp,
    MaskedLayoutSpec,
    MoEPermuteAlignFwdOp,
    MoEPostPermuteFwdOp,
    MoEPrePermuteFwdOp,
    RoutingEpilogueSpec,
    reference,
)

TIGHT = ContiguousLayoutSpec.tight_physical_psum()


def ids(*rows):
    return torch.tensor(rows, dtype=torch.int32)


def test_equal_scores_go_to_the_lower_expert():
    weights, found = FusedTopKFwdOp(3)(torch.zeros(2, 5))
    assert found.tolist() == [[0, 1, 2]] * 2
    torch.testing.assert_close(weights, torch.full((2, 3), 0.2))


def test_a_bias_selects_and_does_not_weight(draw, close):
    logits, bias = draw(7, 6), torch.tensor([0.0, 0, 9, 0, 0, 9])
    weights, found = FusedTopKFwdOp(2, "sigmoid")(logits, bias)
    assert {frozenset(row) for row in found.tolist()} == {frozenset({2, 5})}
    close(weights, logits.sigmoid().gather(1, found.long()))


@pytest.mark.parametrize("scoring_func", ["softmax", "sigmoid"])
def test_renormalised_weights_add_up_to_one(draw, close, scoring_func):
    op = FusedTopKFwdOp(3, scoring_func, True)
    weights, _ = op(draw(9, 8))
    close(weights.sum(1), torch.ones(9))
    starved, _ = op(torch.full((1, 8), -1e4))
    assert starved.isfinite().all()


def test_a_bias_wants_sigmoid_scores(draw):
    with pytest.raises(SignatureError, match="scoring_func == 'sigmoid'"):
        FusedTopKFwdOp(1)(draw(2, 4), draw(4))


@pytest.mark.parametrize("found", [ids([0, 5], [-1, 2]), ids([7, 7]), ids([1, 1], [1, 1], [1, 0])])
@pytest.mark.parametrize("block_size", [1, 4])
def test_foreign_ids_form_the_last_group(found, block_size):
    params = {"num_experts": 3, "block_size": block_size}
    op, canonical = MoEPermuteAlignFwdOp(**params), reference.moe_permute_align_canonical
    wanted = reference.moe_permute_align(found, **params)
    for one, other in zip(
        canonical(op(found), found, **params), canonical(wanted, found, **params), strict=True
    ):
        assert torch.equal(one, other)
    routes, owners, total = op(found)
    foreign = int(((found < 0) | (found > 2)).sum())
    blocks = owners[: int(total) // block_size]
    assert int((blocks == 3).sum()) == -(-foreign // block_size)
    assert sorted(routes[routes < found.numel()].tolist()) == list(range(found.numel()))


LAYOUTS = [
    TIGHT,
    ContiguousLayoutSpec.tight_per_row(),
    ContiguousLayoutSpec.aligned_physical_psum(4),
    ContiguousLayoutSpec.aligned_per_row(4),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "found", [ids([2, 0], [2, 2], [4, 0]), ids([3, 3, 3]), ids([0], [1], [4])], ids=str
)
def test_rows_go_to_their_experts_and_back(draw, close, layout, found):
    x, weights = draw(len(found), 6), draw(*found.shape)
    rows, metadata, inverse = MoEPrePermuteFwdOp(layout, 5)(x, found)
    close(rows[inverse.long()], x.repeat_interleave(found.shape[1], 0))
    wanted = reference.moe_pre_permute(x, found, layout=layout, num_local_experts=5)
    assert torch.equal(metadata, wanted[1])
    back = MoEPostPermuteFwdOp(layout)(rows, weights, inverse)
    close(back, x * weights.sum(1, keepdim=True))


def test_masked_rows_are_not_made():
    with pytest.raises(SignatureError, match="layout.kind == 'contiguous'") as raised:
        MoEPrePermuteFwdOp(MaskedLayoutSpec(4), 8)
    assert raised.value.phase == "construction"


@pytest.mark.parametrize("out_dtype", [None, torch.float16, torch.bfloat16])
def test_the_epilogue_scales_before_rounding(draw, close, out_dtype):
    rows, weights = draw(4, 3, 16), draw(5, 2)
    inverse = torch.randperm(12, generator=torch.Generator().manual_seed(3))[:10].int()
    params = {
        "layout": MaskedLayoutSpec(3),
        "epilogue": RoutingEpilogueSpec(2.5),
        "out_dtype": out_dtype,
    }
    op = MoEPostPermuteFwdOp(**params)
    expected = reference.moe_post_permute(rows, weights, inverse, **params)
    close(op(rows, weights, inverse), expected)
    scaled = 5 * 16 * (2 * 2 + 1)
    read = 4 * (10 * 16 + 10 + 10)
    assert op.eval_roofline() == (scaled, read + op.last_call.bytes("output"))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_is_finite_and_positive(factor):
    with pytest.raises(ValueError, match="routed_scaling_factor must be finite and above 0"):
        RoutingEpilogueSpec(factor)


def test_token_counts_do_not_make_entries(draw):
    permute, back = MoEPrePermuteFwdOp(TIGHT, 4), MoEPostPermuteFwdOp(TIGHT)
    align = MoEPermuteAlignFwdOp(4)
    for tokens in range(1, 6):
        found = torch.zeros(tokens, 2, dtype=torch.int32)
        rows, _, inverse = permute(draw(tokens, 6), found)
        back(rows, draw(tokens, 2), inverse)
        align(found)
    counts = [len(op.built_entries(i)) for op in (permute, back, align) for i in op.interfaces]
    assert counts == [1, 1, 1]


def test_padding_rows_are_not_counted(draw):
    op = MoEPrePermuteFwdOp(LAYOUTS[2], 3)
    op(draw(2, 8), ids([0, 1], [2, 0]))
    read = 4 * (2 * 8 + 4)
    assert op.eval_roofline() == (0, read + 4 * (4 * 8 + 3 + 4))
    assert op.eval_roofline_read_bytes() == read
