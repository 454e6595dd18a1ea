"""Recurrences over a matrix state on the device: gates and flags, packed sequences, one token."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tileops.linear_attention import (
    DeltaNetAutogradFwdOp,
    DeltaNetDecodeFwdOp,
    DeltaNetFwdOp,
    DeltaNetInferenceFwdOp,
    GatedDeltaNetFwdOp,
    GLAInferenceFwdOp,
    KimiDeltaAttentionFwdOp,
)
from tileops.linear_attention import reference as exact
from tileops.linear_attention.kernels.recurrence import Tokens, run


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


CHUNKS = {"StateRecurrenceChunksKernel"}


def run_wide(q, k, v, g, beta, state, scale):
    """All heads in float64, a chunk at a time."""
    group = v.shape[2] // q.shape[2]
    q, k = (part.double().repeat_interleave(group, 2) for part in (q * scale, k))
    rest = v.double(), g.double()[..., None], beta.double()[..., None]
    o, last = run(Tokens(*(part.transpose(1, 2) for part in (q, k, *rest))), state.double())
    return o.transpose(1, 2), last


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [64, 128])
def test_chunks_of_tokens(draw, serving, size, dtype):
    op = GatedDeltaNetFwdOp()
    for shape in ((1, 65), (2, 300), (40, 192), (2, 4096)):
        q, k, v, g, beta = (part.to(dtype) for part in tokens(draw, *shape, 2, 4, size, size))
        state = draw(shape[0], 4, size, size)
        found = op(q, k, v, g, beta, state)
        wide = run_wide(q, k, v, g, beta, state, size**-0.5)
        check(found, [part.cpu() for part in wide])
        for _ in range(3):
            assert all(map(torch.equal, op(q, k, v, g, beta, state), found))
    assert serving(op, "state_recurrence") == CHUNKS


def test_chunks_of_raw_gates_with_every_flag(draw, serving):
    q, k, v, _, beta = tokens(draw, 2, 150, 1, 2, 128, 64)
    inputs = (q, k, v, draw(2, 150, 2, dtype=v.dtype), beta, draw(2, 2, 64, 128), None, None)
    inputs = (*inputs, draw(2), draw(2))
    flags = {
        "use_qk_l2norm_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
        "allow_neg_eigval": True,
        "use_gate_in_kernel": True,
        "state_v_first": True,
    }
    op = GatedDeltaNetFwdOp(**flags)
    wide = exact.gated_delta_net(*(x if x is None else x.cpu() for x in inputs), **flags)
    check(op(*inputs), wide)
    assert serving(op, "state_recurrence") == CHUNKS


@pytest.mark.parametrize("size", [64, 128])
def test_chunks_of_packed_sequences(draw, serving, size):
    lengths = [3, 0, 65, 64, 0, 400, 1]
    q, k, v, g, beta = tokens(draw, 1, sum(lengths), 2, 4, size, size)
    k[:, 68:132] = v[:, 68:132] = torch.nan  # of a sequence alone
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0)
    inputs = q, k, v, g, beta, draw(len(lengths), 4, size, size), starts
    op = GatedDeltaNetFwdOp()
    found, wide = op(*inputs), exact.gated_delta_net(*(part.cpu() for part in inputs))
    assert serving(op, "state_recurrence") == CHUNKS
    for result, other, step in zip(found, wide, (2.0**-7, 1e-4), strict=True):
        result, other = result.cpu().double(), other.double()  # noqa: PLW2901
        torch.testing.assert_close(result, other, rtol=step, atol=1e-3, equal_nan=True)


def test_chunks_that_do_not_decay(draw, serving):
    q, k, v, _, beta = tokens(draw, 2, 200, 2, 2, 64, 128)
    q, k = (part.transpose(1, 2).contiguous().transpose(1, 2) for part in (q, k))
    op = DeltaNetInferenceFwdOp()
    wide = exact.delta_net_inference(*(part.cpu() for part in (q, k, v, beta)))
    check(op(q, k, v, beta), wide)
    assert serving(op, "state_recurrence") == CHUNKS


def test_chunks_forget_what_decays_to_nothing(draw, serving):
    q, k, v, g, beta = tokens(draw, 1, 200, 1, 1, 64, 64)
    g[:, ::50] = -1e4
    g[:, 70:72] = -torch.inf
    op = GatedDeltaNetFwdOp()
    wide = exact.gated_delta_net(*(part.cpu() for part in (q, k, v, g, beta)))
    check(op(q, k, v, g, beta), wide)
    assert serving(op, "state_recurrence") == CHUNKS


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((64, 64), torch.bfloat16), ((128, 128), torch.float16), ((64, 128), torch.bfloat16)],
    ids=str,
)
def test_what_gradients_reuse_is_kept_of_chunks(draw, serving, sizes, dtype):
    q, k = (F.normalize(draw(2, 3, 256, sizes[0]), dim=-1).to(dtype) for _ in range(2))
    v, beta = draw(2, 3, 256, sizes[1], dtype=dtype), draw(2, 3, 256).sigmoid().to(dtype)
    op = DeltaNetFwdOp()
    found = op(q, k, v, beta)
    assert serving(op, "delta_chunks") == {"DeltaChunksKernel"}
    wide = exact.delta_net(*(part.cpu().double() for part in (q, k, v, beta)))
    # What is read has rounded factors, and comes to 2 or 3 here: two units in its last place.
    bounds = 2 * torch.finfo(dtype).eps, *[2e-4] * 5
    for result, other, bound in zip(found, wide, bounds, strict=True):
        step = torch.finfo(dtype).eps if result.dtype == dtype else 1e-4
        torch.testing.assert_close(result.cpu().double(), other.double(), rtol=step, atol=bound)
    assert all(map(torch.equal, op(q, k, v, beta), found))


def test_gradients_go_through_what_is_kept(draw):
    q, k = (F.normalize(draw(1, 2, 128, 64), dim=-1).bfloat16() for _ in range(2))
    v, beta = draw(1, 2, 128, 64).bfloat16(), draw(1, 2, 128).sigmoid().bfloat16()
    arriving = draw(1, 2, 128, 64).bfloat16()
    found, wide = [], []
    for results, change in ((found, torch.clone), (wide, lambda part: part.cpu().float())):
        leaves = [change(part).requires_grad_() for part in (q, k, v, beta)]
        o = DeltaNetAutogradFwdOp()(*leaves)
        results.extend(torch.autograd.grad(o, leaves, change(arriving)))
    for result, other in zip(found, wide, strict=True):
        bound = 5e-2 * other.abs().max().item()
        torch.testing.assert_close(result.cpu().float(), other, rtol=0, atol=bound)
