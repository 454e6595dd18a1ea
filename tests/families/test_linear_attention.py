"""Matrix-state recurrences: chunks, packing, flags, decoding, underflow, both ways of packing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tileops.errors import SignatureError
from tileops.linear_attention import (
    DeltaNetInferenceFwdOp,
    GatedDeltaNetBwdOp,
    GatedDeltaNetFwdOp,
    GLAInferenceFwdOp,
    KimiDeltaAttentionBwdOp,
    KimiDeltaAttentionFwdOp,
    reference,
)
from tileops.linear_attention.kernels import StateRecurrencePortableKernel
from tileops.linear_attention.kernels.recurrence import CHUNK, Tokens, run

BOUND = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}
LENGTHS = [1, 5, CHUNK, CHUNK + 1, 3 * CHUNK - 7]


def gated(draw, batch, length, *, heads=2, value_heads=4, key=8, value=6, dtype=torch.float32):
    """q, k, v, g and beta as models have them."""
    return (
        draw(batch, length, heads, key, dtype=dtype),
        F.normalize(draw(batch, length, heads, key), dim=-1).to(dtype),
        draw(batch, length, value_heads, value, dtype=dtype),
        -draw(batch, length, value_heads).abs().to(dtype) * 0.3,
        draw(batch, length, value_heads).sigmoid().to(dtype),
    )


def offsets(lengths):
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0)])


def all_close(found, wanted, close, bound):
    for one, other in zip(found, wanted, strict=True):
        close(one, other, bound)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("has_state", [False, True])
def test_gated_delta_rule(draw, close, dtype, length, has_state):
    tensors = gated(draw, 2, length, dtype=dtype)
    state = (draw(2, 4, 8, 6),) if has_state else ()
    found = GatedDeltaNetFwdOp()(*tensors, *state)
    all_close(found, reference.gated_delta_net(*tensors, *state), close, BOUND[dtype])


@pytest.mark.parametrize("length", [1, 16, 17, 40])
def test_channel_decays(draw, close, length):
    q, k, v, _, beta = gated(draw, 2, length, heads=4)
    g = -draw(2, length, 4, 8).abs()
    found = KimiDeltaAttentionFwdOp()(q, k, v, g, beta)
    all_close(found, reference.kimi_delta_attention(q, k, v, g, beta), close, 1e-4)
    found = GLAInferenceFwdOp()(q, k, g, v)
    all_close(found, reference.gla_inference(q, k, g, v), close, 1e-4)


def test_delta_rule_without_decay(draw, close):
    q, k, v, _, beta = gated(draw, 2, 70, heads=4)
    params = {"use_qk_l2norm_in_kernel": True, "scale": 0.5}
    found = DeltaNetInferenceFwdOp(**params)(q, k, v, beta)
    all_close(found, reference.delta_net_inference(q, k, v, beta, **params), close, 1e-4)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("flags", [{}, {"use_qk_l2norm_in_kernel": True, "state_v_first": True}])
def test_gradients_are_accurate_beyond_a_chunk(draw, dtype, flags):
    length = CHUNK + 9
    tensors = *gated(draw, 1, length, dtype=dtype), draw(1, 4, 6, 6)
    tensors = (tensors[0][..., :6], tensors[1][..., :6], *tensors[2:])
    arriving = draw(1, length, 4, 6, dtype=dtype), draw(1, 4, 6, 6)
    found = GatedDeltaNetBwdOp(**flags)(*arriving, *tensors)
    wanted = reference.gated_delta_net_bwd(*arriving, *tensors, *[None] * 4, **flags)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            bound = BOUND[dtype] * other.abs().max().item()
            torch.testing.assert_close(one, other, rtol=0, atol=bound)


def test_gradients_are_computed_in_inference_mode(draw):
    tensors = gated(draw, 1, 7)
    arriving = draw(1, 7, 4, 6), draw(1, 4, 8, 6)
    wanted = GatedDeltaNetBwdOp()(*arriving, *tensors)
    with torch.inference_mode():
        packed = offsets([3, 4])
        found = GatedDeltaNetBwdOp()(*arriving, *(x + 0 for x in tensors))
        GatedDeltaNetBwdOp()(arriving[0], draw(2, 4, 8, 6), *tensors, None, packed, packed)
    for one, other in zip(found, wanted, strict=True):
        assert one is other or torch.equal(one, other)


@pytest.mark.parametrize("has_state", [False, True])
def test_gradients_where_there_is_no_token(draw, has_state):
    """That of the states after goes on to those before, in memory of its own, and nowhere else."""
    tensors, packed = gated(draw, 1, 0), offsets([0, 0])
    arriving, state = draw(2, 4, 8, 6), draw(2, 4, 8, 6) if has_state else None
    op = GatedDeltaNetBwdOp(use_gate_in_kernel=True)
    *_, dstate, rate, bias = op(
        draw(1, 0, 4, 6), arriving, *tensors, state, packed, packed, draw(4), draw(4)
    )
    assert not rate.any() and not bias.any()
    if has_state:
        assert torch.equal(dstate, arriving)
        assert dstate.data_ptr() != arriving.data_ptr()
    else:
        assert dstate is None


def test_gradients_where_there_is_no_value_head(draw):
    q, k, v, _, beta = gated(draw, 1, 3, value_heads=0)
    op = KimiDeltaAttentionBwdOp(use_gate_in_kernel=True)
    tensors = (q, k, v, draw(1, 3, 0, 8), beta, draw(1, 0, 8, 6), None, None, draw(0), draw(0))
    dq, dk, *_ = op(torch.empty_like(v), draw(1, 0, 8, 6), *tensors)
    assert dq.shape == q.shape
    assert not dq.any() and not dk.any()
    wanted = reference.kimi_delta_attention_bwd(v, draw(1, 0, 8, 6), *tensors)
    assert not wanted[0].any()


RAGGED = [[1, 63, 0, 70], [0, 0, 5], [64, 64], [3, 0], [130]]


@pytest.mark.parametrize("lengths", RAGGED, ids=str)
@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("v_first", [False, True])
def test_packed_sequences(draw, close, lengths, has_state, v_first):
    tensors, cu = gated(draw, 1, sum(lengths)), offsets(lengths)
    state = draw(len(lengths), 4, *((6, 8) if v_first else (8, 6))) if has_state else None
    params = {"state_v_first": v_first}
    found = GatedDeltaNetFwdOp(**params)(*tensors, state, cu, cu)
    wanted = reference.gated_delta_net(*tensors, state, cu, **params)
    all_close(found, wanted, close, 1e-4)
    if has_state:
        for sequence, length in enumerate(lengths):
            if not length:
                assert torch.equal(found[1][sequence], state[sequence])


@pytest.mark.parametrize("lengths", RAGGED, ids=str)
@pytest.mark.parametrize("channels", [1, 8])
def test_blocks_give_what_sequences_one_by_one_give(draw, close, lengths, channels):
    q, k, v, g, beta = gated(draw, 1, sum(lengths), heads=4)
    decay = g[..., None].expand(-1, -1, -1, channels)
    fields = (part.transpose(1, 2) for part in (q, k, v, decay, beta[..., None]))
    tokens, state = Tokens(*fields), draw(len(lengths), 4, 8, 6)
    kernel = StateRecurrencePortableKernel
    found = kernel._by_block(tokens, state, offsets(lengths))
    wanted = kernel._by_sequence(tokens, state, offsets(lengths).tolist())
    close(found[0].contiguous(), wanted[0].contiguous(), 1e-5)
    close(found[1], wanted[1], 1e-5)


FLAGS = {
    "use_qk_l2norm_in_kernel": True,
    "use_beta_sigmoid_in_kernel": True,
    "allow_neg_eigval": True,
    "use_gate_in_kernel": True,
}


def test_all_flags(draw, close):
    q, k, v, g, beta = gated(draw, 2, 70)
    gate = draw(4), draw(4)
    raw = (q * 3, k * 2, v, g, beta, None, None, None, *gate)
    found = GatedDeltaNetFwdOp(**FLAGS)(*raw)
    all_close(found, reference.gated_delta_net(*raw, **FLAGS), close, 1e-4)


@pytest.mark.parametrize("lower_bound", [None, -5.0])
@pytest.mark.parametrize("has_bias", [False, True])
def test_all_flags_of_channel_decays(draw, close, lower_bound, has_bias):
    q, k, v, _, beta = gated(draw, 2, 33)
    params = {**FLAGS, "lower_bound": lower_bound}
    bias = draw(4 * 8) if has_bias else None
    raw = (q, k, v, draw(2, 33, 4, 8), beta, None, None, None, draw(4), bias)
    found = KimiDeltaAttentionFwdOp(**params)(*raw)
    all_close(found, reference.kimi_delta_attention(*raw, **params), close, 1e-4)


def test_prefill_then_decode_gives_what_one_call_gives(draw, close):
    tensors = gated(draw, 2, 70)
    op = GatedDeltaNetFwdOp()
    whole = op(*tensors)
    out, state = op(*(part[:, :66] for part in tensors))
    parts = [out]
    for t in range(66, 70):
        out, state = op(*(part[:, t : t + 1] for part in tensors), state)
        parts.append(out)
    close(torch.cat(parts, 1), whole[0], 1e-5)
    close(state, whole[1], 1e-5)
    assert len(op.built_entries("state_recurrence")) == 2  # prefill and decoding


def test_decays_that_underflow_forget(draw, close):
    q, k, v, g, beta = gated(draw, 1, 70)
    g = torch.full_like(g, -1e4)
    o, state = GatedDeltaNetFwdOp()(q, k, v, g, beta, draw(1, 4, 8, 6))
    assert o.isfinite().all()
    last_key = k[0, -1].repeat_interleave(2, 0)
    close(state[0], last_key[:, :, None] * (beta[0, -1, :, None] * v[0, -1])[:, None], 1e-5)


def test_a_long_decay_keeps_its_precision(draw, close):
    q, k, v, g, beta = gated(draw, 1, CHUNK)
    g[:, : CHUNK // 2] = -3e3
    found = GatedDeltaNetFwdOp()(q, k, v, g, beta)
    all_close(found, reference.gated_delta_net(q, k, v, g, beta), close, 1e-4)


def test_no_token_keeps_the_state(draw):
    tensors, state = gated(draw, 2, 0), draw(2, 4, 8, 6)
    o, final = GatedDeltaNetFwdOp()(*tensors, state)
    assert o.shape == (2, 0, 4, 6)
    assert torch.equal(final, state)
    empty = gated(draw, 1, 0)
    _, final = GatedDeltaNetFwdOp(state_v_first=True)(
        *empty, state.mT.contiguous(), offsets([0, 0])
    )
    assert torch.equal(final, state.mT)


@pytest.mark.parametrize(
    ("params", "extra", "message"),
    [
        ({"allow_neg_eigval": True}, {}, "use_beta_sigmoid_in_kernel"),
        ({"scale": float("inf")}, {}, "scale.value < inf"),
        ({"scale": float("nan")}, {}, "scale.value < inf"),
        ({}, {"cu_seqlens": offsets([2, 1])}, "B == 1"),
        ({}, {"cu_seqlens_cpu": offsets([2, 1])}, "present\\(cu_seqlens\\)"),
        ({"use_gate_in_kernel": True}, {}, "A_log"),
        ({}, {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4)}, "use_gate_in_kernel"),
    ],
)
def test_calls_that_do_not_fit_are_refused(draw, params, extra, message):
    with pytest.raises(SignatureError, match=message):
        GatedDeltaNetFwdOp(**params)(*gated(draw, 2, 3), **extra)


def test_chunks_do_not_matter(draw, close):
    tensors = gated(draw, 2, 90, heads=4)
    q, k, v, g, beta = (part.transpose(1, 2) for part in tensors)
    state = torch.zeros(2, 4, 8, 6)
    by_head = run(Tokens(q, k, v, g[..., None], beta[..., None]), state)
    by_channel = run(Tokens(q, k, v, g[..., None].expand(q.shape), beta[..., None]), state)
    all_close(
        [part.contiguous() for part in by_head],
        [part.contiguous() for part in by_channel],
        close,
        1e-5,
    )


def test_roofline_adds_up_the_flags(draw):
    q, k, v, g, beta = gated(draw, 2, 3)
    op = GatedDeltaNetFwdOp(**FLAGS)
    op(q, k, v, g, beta, A_log=draw(4), dt_bias=draw(4))
    flops = 7 * 2 * 3 * 4 * 8 * 6 + 2 * 2 * 3 * 2 * (3 * 8 + 2) + 5 * 2 * 3 * 4 + 2 * 4
    assert op.eval_roofline() == (flops + 5 * 2 * 3 * 4, op.last_call.derived_bytes())
    assert op.roof_key() == "tensor_core.tf32"
