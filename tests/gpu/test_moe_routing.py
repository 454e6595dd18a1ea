"""Selection of experts, permutation and sums on the device, and whole routed layers."""

from __future__ import annotations

import pytest
import torch

from tileops.moe import (
    ContiguousLayoutSpec,
    FusedMoEFwdOp,
    FusedTopKFwdOp,
    MoEPermuteAlignFwdOp,
    MoEPostPermuteFwdOp,
    MoEPrePermuteFwdOp,
    RoutingEpilogueSpec,
)
from tileops.moe import reference as exact

TIGHT = ContiguousLayoutSpec.tight_physical_psum()


def routes(tokens, top_k, experts, least=0):
    generator = torch.Generator().manual_seed(tokens)
    return torch.randint(least, experts, (tokens, top_k), generator=generator).int()


@pytest.mark.parametrize(
    ("layout", "tokens", "top_k", "experts", "least"),
    [
        (TIGHT, 1, 8, 384, 0),
        (TIGHT, 4096, 8, 128, 127),
        (ContiguousLayoutSpec.tight_per_row(), 33, 8, 256, 0),
        (ContiguousLayoutSpec.aligned_physical_psum(128), 700, 8, 128, 100),
        (ContiguousLayoutSpec.aligned_per_row(16), 1500, 6, 1024, 500),
    ],
)
def test_rows_reach_their_experts(draw, serving, layout, tokens, top_k, experts, least):
    x = draw(tokens, 1032, dtype=torch.bfloat16)
    ids = routes(tokens, top_k, experts, least)
    op = MoEPrePermuteFwdOp(layout, experts)
    found = tuple(result.cpu() for result in op(x, ids.cuda()))
    params = {"layout": layout, "num_local_experts": experts}
    wide = exact.moe_pre_permute(x.cpu(), ids, **params)
    for result, other in zip(
        exact.moe_pre_permute_canonical(found, x.cpu(), ids, **params),
        exact.moe_pre_permute_canonical(wide, x.cpu(), ids, **params),
        strict=True,
    ):
        torch.testing.assert_close(result, other, rtol=0, atol=0)
    assert serving(op, "pre_permute") == {"MoEPrePermuteCountingKernel"}


@pytest.mark.parametrize(
    ("tokens", "top_k", "out_dtype"),
    [(1, 8, None), (700, 8, None), (65, 11, torch.float16), (3, 1, None)],
)
def test_rows_of_experts_are_summed(draw, serving, tokens, top_k, out_dtype):
    rows = tokens * top_k
    x = draw(rows + 5, 7168, dtype=torch.bfloat16)
    places = torch.randperm(rows + 5, generator=torch.Generator().manual_seed(1))[:rows].int()
    weights = draw(tokens, top_k)
    op = MoEPostPermuteFwdOp(TIGHT, RoutingEpilogueSpec(2.5), out_dtype)
    out = op(x, weights, places.cuda())
    wide = exact.moe_post_permute(
        x.cpu().double(), weights.cpu().double(), places, layout=TIGHT, epilogue=op.epilogue
    )
    step = 2.0**-7 if out_dtype is None else 2.0**-10
    torch.testing.assert_close(out.cpu().double(), wide.double(), rtol=step, atol=1e-3)
    assert serving(op, "post_permute") == {"MoEPostPermuteRowsKernel"}


@pytest.mark.parametrize(
    ("tokens", "top_k", "experts", "block_size"), [(1, 8, 384, 64), (4096, 8, 128, 16)]
)
def test_routes_are_grouped_in_blocks(serving, tokens, top_k, experts, block_size):
    ids = routes(tokens, top_k, experts + 2, -1)
    op = MoEPermuteAlignFwdOp(experts, block_size)
    found = tuple(result.cpu() for result in op(ids.cuda()))
    params = {"num_experts": experts, "block_size": block_size}
    wide = exact.moe_permute_align(ids, **params)
    for result, other in zip(
        exact.moe_permute_align_canonical(found, ids, **params),
        exact.moe_permute_align_canonical(wide, ids, **params),
        strict=True,
    ):
        torch.testing.assert_close(result, other, rtol=0, atol=0)
    assert serving(op, "permute_align") == {"MoEPermuteAlignCountingKernel"}


@pytest.mark.parametrize(
    ("experts", "top_k", "scoring", "renormalize", "biased", "dtype"),
    [
        (256, 8, "sigmoid", True, True, torch.float32),
        (128, 8, "softmax", True, False, torch.bfloat16),
        (384, 8, "sigmoid", False, False, torch.float16),
        (1024, 32, "softmax", False, False, torch.float32),
        (9, 9, "softmax", True, False, torch.float32),
    ],
)
def test_best_experts_are_selected(
    draw, serving, experts, top_k, scoring, renormalize, biased, dtype
):
    logits = draw(1001, experts).to(dtype)
    logits[3] = 0.25  # equal ones
    bias = draw(experts) if biased else None
    op = FusedTopKFwdOp(top_k, scoring, renormalize)
    found = tuple(result.cpu() for result in op(logits, bias))
    inputs = logits.cpu(), None if bias is None else bias.cpu()
    params = {"top_k": top_k, "scoring_func": scoring, "renormalize": renormalize}
    wide = exact.fused_topk(*inputs, **params)
    for result, other in zip(
        exact.fused_topk_canonical(found, *inputs, **params),
        exact.fused_topk_canonical(wide, *inputs, **params),
        strict=True,
    ):
        torch.testing.assert_close(result, other, rtol=1e-5, atol=1e-6)
    assert serving(op, "top_k") == {"FusedTopKWarpKernel"}


@pytest.mark.parametrize(
    ("tokens", "activation"), [(3, "silu_and_mul"), (300, "silu_and_mul"), (40, "gelu_and_mul")]
)
def test_whole_layer_is_accurate_and_waits_for_nothing(draw, tokens, activation):
    experts, hidden, width = 16, 640, 256  # three tokens go route by route
    x = draw(tokens, hidden, dtype=torch.bfloat16)
    gating = draw(tokens, experts)
    gating[:, 3] = -1e4  # no token for this one
    w1 = draw(experts, 2 * width, hidden, dtype=torch.bfloat16, scale=hidden**-0.5)
    w2 = draw(experts, hidden, width, dtype=torch.bfloat16, scale=width**-0.5)
    op = FusedMoEFwdOp(4, "softmax", True, 2.5, activation=activation)
    op(x, gating, w1, w2)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = op(x, gating, w1, w2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    wide = exact.fused_moe(
        *(tensor.cpu().double() for tensor in (x, gating, w1, w2)),
        top_k=4,
        renormalize=True,
        routed_scaling_factor=2.5,
        activation=activation,
    )
    torch.testing.assert_close(out.cpu().double(), wide.double(), rtol=3e-2, atol=3e-2)
