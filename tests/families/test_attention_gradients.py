"""Gradients of dense attention: accuracy against float64, blocks of queries, masks, rotations.

Those from a kept result are compared with those from nothing but the inputs.
"""

from __future__ import annotations

import pytest
import torch

from tileops.attention import (
    GroupedQueryAttentionBwdOp,
    GroupedQueryAttentionDenseBwdOp,
    GroupedQueryAttentionDenseFwdOp,
    MultiHeadAttentionBwdOp,
    reference,
)
from tileops.attention.kernels import gradients

BF16 = torch.bfloat16
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


def operands(draw, dtype, *, rows=7, columns=9, heads=6, kv_heads=2, width=8):
    """do, q, k and v."""
    query, key = (2, rows, heads, width), (2, columns, kv_heads, width)
    return [draw(*shape, dtype=dtype) for shape in (query, query, key, key)]


def tables(draw, params, columns, width, dtype):
    """The rotary tables of a call that rotates."""
    if "pos_encoding_mode" not in params:
        return []
    angle = draw(columns + 2, params.get("rotary_dim", width) // 2)
    return [angle.cos().to(dtype), angle.sin().to(dtype)]


def check(found, wanted, dtype):
    for one, other in zip(found, wanted, strict=True):
        assert one.is_contiguous()
        atol = BOUND[dtype] * other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_gradients_are_accurate(draw, dtype, params):
    given = [*operands(draw, dtype), *tables(draw, params, 9, 8, dtype)]
    wanted = reference.grouped_query_attention_dense_bwd(*given, **params)
    check(GroupedQueryAttentionDenseBwdOp(**params)(*given), wanted, dtype)


@pytest.mark.parametrize("params", PARAMS[:5], ids=str)
def test_queries_come_in_blocks(draw, monkeypatch, params):
    given = operands(draw, torch.float32)
    whole = GroupedQueryAttentionDenseBwdOp(**params)(*given)
    monkeypatch.setattr(gradients, "QUERY_BLOCK", 3)
    check(GroupedQueryAttentionDenseBwdOp(**params)(*given), whole, torch.float32)


def kept(q, k, v, *, is_causal):
    """The result of attention and the logarithms of its sums."""
    group = q.shape[2] // k.shape[2]
    queries = q.double().transpose(1, 2)
    keys, values = (x.double().repeat_interleave(group, 2).transpose(1, 2) for x in (k, v))
    scores = queries @ keys.mT * q.shape[3] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    result = scores.softmax(-1) @ values
    return result.transpose(1, 2).to(q.dtype), scores.logsumexp(-1).float()


@pytest.mark.parametrize("dtype", [torch.float16, BF16])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("kv_heads", [2, 6])
def test_a_kept_result_gives_the_same_gradients(draw, monkeypatch, dtype, is_causal, kv_heads):
    do, q, k, v = operands(draw, dtype, rows=9, columns=9, kv_heads=kv_heads)
    o, lse = kept(q, k, v, is_causal=is_causal)
    wanted = reference.grouped_query_attention_dense_bwd(do, q, k, v, is_causal=is_causal)
    classes = [GroupedQueryAttentionBwdOp, MultiHeadAttentionBwdOp]
    for block in (gradients.QUERY_BLOCK, 4):
        monkeypatch.setattr(gradients, "QUERY_BLOCK", block)
        for cls in classes if kv_heads == 6 else classes[:1]:
            check(cls(is_causal)(q, k, v, o, do, lse), wanted, dtype)


def test_a_query_that_sees_nothing_adds_nothing(draw):
    params = {"is_causal": False, "window_size_right": 0}
    do, q, k, v = operands(draw, torch.float32, rows=5, columns=2)
    dq, dk, dv = GroupedQueryAttentionDenseBwdOp(**params)(do, q, k, v)
    assert torch.equal(dq[:, :3], torch.zeros(2, 3, 6, 8))
    check((dq, dk, dv), reference.grouped_query_attention_dense_bwd(do, q, k, v, **params), q.dtype)


def test_views(draw):
    do, q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in operands(draw, BF16))
    op = GroupedQueryAttentionDenseBwdOp()
    wanted = op(do.contiguous(), q.contiguous(), k.contiguous(), v.contiguous())
    for one, other in zip(op(do, q, k, v), wanted, strict=True):
        assert torch.equal(one, other)


def test_there_is_no_gradient_through_codes(draw):
    _, q, k, v = (x.to(torch.float8_e4m3fn) for x in operands(draw, torch.float32))
    scale = torch.ones(2, 2)
    op = GroupedQueryAttentionDenseFwdOp(out_dtype=BF16)
    with pytest.raises(RuntimeError, match="q requires grad, but .* no gradient in float8_e4m3fn"):
        op(q.requires_grad_(), k, v, scale, scale, scale)


def test_there_is_no_gradient_of_rotary_tables(draw):
    _, q, k, v = operands(draw, torch.float32)
    cos, sin = tables(draw, {"pos_encoding_mode": "rope"}, 9, 8, torch.float32)
    op = GroupedQueryAttentionDenseFwdOp(pos_encoding_mode="rope")
    with pytest.raises(RuntimeError, match="rope_cos requires grad, but .* no gradient of it"):
        op(q, k, v, rope_cos=cos.requires_grad_(), rope_sin=sin)
