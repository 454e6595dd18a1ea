"""Gradients of packed attention: accuracy against float64, runs of requests, one mask for all."""

from __future__ import annotations

import pytest
import torch

from tileops.attention import (
    GroupedQueryAttentionDenseBwdOp,
    GroupedQueryAttentionVarlenBwdOp,
    GroupedQueryAttentionVarlenFwdOp,
    reference,
)
from tileops.attention.kernels import VarlenAttentionBwdPortableKernel, gradients

BOUND = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Tolerance by the dtype, as a share of the largest gradient."""

PARAMS = [
    {},
    {"is_causal": False},
    {"window_size_left": 2},
    {"is_causal": False, "window_size_left": 1, "window_size_right": 3},
    {"softcap": 1.5},
    {"sm_scale": 0.3, "is_causal": False, "softcap": 2.0},
    {"pos_encoding_mode": "rope"},
    {"pos_encoding_mode": "rope", "rotary_dim": 4, "rope_layout": "interleaved"},
]
LENGTHS = [
    ([7], [9]),
    ([3, 3, 0, 5], [4, 4, 2, 5]),
    ([1, 0, 6, 2], [1, 0, 3, 0]),
    ([0, 0], [3, 1]),
]


def operands(draw, dtype, lengths, *, heads=6, kv_heads=2, width=8):
    """do, q, k, v and the offsets of packed requests."""
    rows, columns = (sum(part) for part in lengths)
    query, key = (rows, heads, width), (columns, kv_heads, width)
    tensors = [draw(*shape, dtype=dtype) for shape in (query, query, key, key)]
    return [*tensors, *(torch.tensor([0, *part]).cumsum(0).int() for part in lengths)]


def tables(draw, params, width, dtype):
    """Rotary tables that are shorter than the longest request, of a call that rotates."""
    if "pos_encoding_mode" not in params:
        return []
    angle = draw(6, params.get("rotary_dim", width) // 2)
    return [angle.cos().to(dtype), angle.sin().to(dtype)]


def check(found, wanted, dtype):
    for one, other in zip(found, wanted, strict=True):
        assert one.is_contiguous()
        atol = BOUND[dtype] * (other.abs().max().item() if other.numel() else 0)
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_gradients_are_accurate(draw, dtype, params, lengths):
    given = [*operands(draw, dtype, lengths), *tables(draw, params, 8, dtype)]
    wanted = reference.grouped_query_attention_varlen_bwd(*given, **params)
    check(GroupedQueryAttentionVarlenBwdOp(**params)(*given), wanted, dtype)


@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS[:3], ids=str)
def test_one_mask_gives_what_requests_one_by_one_give(draw, monkeypatch, params, lengths):
    given = [*operands(draw, torch.float32, lengths), *tables(draw, params, 8, torch.float32)]
    op = GroupedQueryAttentionVarlenBwdOp(**params)
    wanted = op(*given)
    kernel = VarlenAttentionBwdPortableKernel
    monkeypatch.setattr(kernel, "_by_request", kernel._under_mask)
    for block in (gradients.QUERY_BLOCK, 4):
        monkeypatch.setattr(gradients, "QUERY_BLOCK", block)
        check(op(*given), wanted, torch.float32)


@pytest.mark.parametrize("place", range(4))
def test_what_is_not_finite_stays_in_its_request_under_one_mask(draw, monkeypatch, place):
    given = operands(draw, torch.float32, ([3, 4], [3, 5]))
    op = GroupedQueryAttentionVarlenBwdOp()
    whole = op(*given)
    given[place][1, 0] = torch.inf
    kernel = VarlenAttentionBwdPortableKernel
    monkeypatch.setattr(kernel, "_by_request", kernel._under_mask)
    for one, other in zip(op(*given), whole, strict=True):
        assert one[:3].isnan().any()
        torch.testing.assert_close(one[3:], other[3:])


def test_requests_of_one_length_are_a_batch(draw):
    do, q, k, v, *offsets = operands(draw, torch.float32, ([4, 4], [6, 6]))
    found = GroupedQueryAttentionVarlenBwdOp()(do, q, k, v, *offsets)
    batch = (x.view(2, -1, *x.shape[1:]) for x in (do, q, k, v))
    wanted = GroupedQueryAttentionDenseBwdOp()(*batch)
    check(found, [x.flatten(0, 1) for x in wanted], torch.float32)


def test_loss_goes_backward_through_packed_attention(draw):
    do, q, k, v, *offsets = operands(draw, torch.float32, LENGTHS[1])
    leaves = [x.requires_grad_() for x in (q, k, v)]
    o = GroupedQueryAttentionVarlenFwdOp()(*leaves, *offsets)
    found = torch.autograd.grad(o, leaves, do)
    wanted = GroupedQueryAttentionVarlenBwdOp()(do, *(x.detach() for x in leaves), *offsets)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


def test_there_is_no_gradient_through_codes(draw):
    _, q, k, v, *offsets = operands(draw, torch.float32, ([4], [4]))
    q, k, v = (x.to(torch.float8_e4m3fn) for x in (q, k, v))
    scale = torch.ones(1, 2)
    op = GroupedQueryAttentionVarlenFwdOp(out_dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="q requires grad, but .* no gradient in float8_e4m3fn"):
        op(q.requires_grad_(), k, v, *offsets, scale, scale, scale)


@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_roofline_counts_what_is_seen(draw, softcap):
    do, q, k, v, *offsets = operands(draw, torch.float32, ([2, 3], [2, 5]))
    op = GroupedQueryAttentionVarlenBwdOp(softcap=softcap)
    op(do, q, k, v, *offsets)
    scores = (1 + 2) + (3 + 4 + 5)
    flops = 6 * scores * (10 * 8 + 11 + (6 if softcap else 0))
    assert op.eval_roofline() == (flops, op.last_call.derived_bytes())
    assert op.roof_key() == "tensor_core.tf32"
