"""Recurrences over a matrix state on the device: gates and flags, packed sequences, one token."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tileops.linear_attention import (
    DeltaNetDecodeFwdOp,
    GatedDeltaNetFwdOp,
    GLAInferenceFwdOp,
    KimiDeltaAttentionFwdOp,
)
from tileops.linear_attention import reference as exact


def check(found, wide):
    """Both results; states are float32 sums."""
    for result, other, step in zip(found, wide, (2.0**-7, 1e-4), strict=True):
        torch.testing.assert_close(result.cpu().double(), other.double(), rtol=step, atol=1e-3)


def tokens(draw, batch, length, heads, value_heads, key_dim, value_dim, width=()):
    half = torch.bfloat16
    q, k = (F.normalize(draw(batch, length, heads, key_dim), dim=-1).to(half) for _ in range(2))
    v = draw(batch, length, value_heads, value_dim, dtype=half)
    g = -draw(batch, length, value_heads, *width).abs().to(half)
    return q, k, v, g, draw(batch, length, value_heads).sigmoid().to(half)


@pytest.mark.parametrize("v_first", [False, True])
@pytest.mark.parametrize("shape", [(2, 1, 4, 8, 128, 128), (1, 70, 2, 2, 256, 64)], ids=str)
def test_states_take_up_tokens(draw, serving, shape, v_first):
    q, k, v, g, beta = tokens(draw, *shape)
    sizes = shape[4:][::-1] if v_first else shape[4:]
    state = draw(shape[0], shape[3], *sizes)
    op = GatedDeltaNetFwdOp(state_v_first=v_first)
    cpu = [part.cpu() for part in (q, k, v, g, beta, state)]
    found = op(q, k, v, g, beta, state)
    assert serving(op, "state_recurrence") == {"StateRecurrenceTokensKernel"}
    check(found, exact.gated_delta_net(*cpu, state_v_first=v_first))


def test_packed_sequences_of_raw_gates_and_channels(draw):
    q, k, v, g, beta = tokens(draw, 1, 40, 2, 4, 64, 64, (64,))
    starts = torch.tensor([0, 3, 3, 39, 40], device="cuda")
    rate, bias = draw(4), draw(4 * 64)
    flags = {
        "use_qk_l2norm_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
        "use_gate_in_kernel": True,
        "lower_bound": -3.0,
    }
    op = KimiDeltaAttentionFwdOp(**flags)
    inputs = (q, k, v, g, beta, draw(4, 4, 64, 64), starts, None, rate, bias)
    wide = exact.kimi_delta_attention(
        *(None if part is None else part.cpu() for part in inputs), **flags
    )
    check(op(*inputs), wide)


def test_one_token_is_served(draw, serving):
    q, k, v, g, beta = tokens(draw, 2, 1, 4, 8, 128, 128)
    op = GatedDeltaNetFwdOp()
    found = op(q, k, v, g, beta)
    check(found, exact.gated_delta_net(*(part.cpu() for part in (q, k, v, g, beta))))
    assert serving(op, "state_recurrence") == {"StateRecurrenceTokensKernel"}


@pytest.mark.parametrize("key_dim", [64, 160, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_state_of_any_dtype_is_rounded_once(draw, serving, dtype, key_dim):
    q, k = (F.normalize(draw(3, 5, key_dim), dim=-1).to(dtype) for _ in range(2))
    beta, v = draw(3, 5).sigmoid().to(dtype), draw(3, 5, 96, dtype=dtype)
    state = draw(3, 5, key_dim, 96, dtype=dtype)
    op = DeltaNetDecodeFwdOp()
    found = op(q, k, v, beta, state)
    wide = exact.delta_net_decode(*(part.cpu() for part in (q, k, v, beta, state)))
    step = torch.finfo(dtype).eps
    for result, other in zip(found, wide, strict=True):
        assert result.dtype == dtype
        torch.testing.assert_close(result.cpu().double(), other.double(), rtol=step, atol=1e-4)
    assert serving(op, "state_recurrence") == {"StateRecurrenceTokensKernel"}


def test_gated_linear_attention(draw):
    q, k, v, g, _ = tokens(draw, 2, 9, 3, 3, 96, 32, (96,))
    op = GLAInferenceFwdOp()
    found = op(q, k, g, v)
    check(found, exact.gla_inference(*(part.cpu() for part in (q, k, g, v))))
