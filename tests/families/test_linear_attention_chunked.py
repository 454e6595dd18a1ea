"""Linear attention in chunks: against single steps, and gradients through what was kept."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F

from tileops.errors import SignatureError
from tileops.linear_attention import (
    DeltaNetAutogradFwdOp,
    DeltaNetBwdOp,
    DeltaNetDecodeFwdOp,
    DeltaNetFwdOp,
    GLABwdOp,
    GLADecodeFwdOp,
    GLAFwdOp,
    reference,
)
from tileops.linear_attention.kernels.gated_chunks import _gradients
from tileops.linear_attention.kernels.recurrence import CHANNEL_CHUNK, Tokens, run

BOUND = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}
CHUNKS = [(1, 1), (6, 1), (64, 64), (128, 64), (96, 32), (9, 3)]


def delta(draw, length, *, key=8, value=6, dtype=torch.float32):
    """q, k, v and beta as models have them."""
    return (
        draw(2, 3, length, key, dtype=dtype),
        F.normalize(draw(2, 3, length, key), dim=-1).to(dtype),
        draw(2, 3, length, value, dtype=dtype),
        draw(2, 3, length).sigmoid().to(dtype),
    )


def linear(draw, length, *, key=8, value=6, dtype=torch.float32):
    """q, k, v and g as models have them."""
    return (
        draw(2, length, 3, key, dtype=dtype),
        F.normalize(draw(2, length, 3, key), dim=-1).to(dtype),
        draw(2, length, 3, value, dtype=dtype),
        -F.softplus(draw(2, length, 3, key)).to(dtype),
    )


def delta_steps(q, k, v, beta):
    """The delta rule one step after another, in float64."""
    state = torch.zeros(*k.shape[:2], k.shape[3], v.shape[3], dtype=torch.float64)
    read = []
    for t in range(k.shape[2]):
        taken = beta[:, :, t, None] * (v[:, :, t] - (k[:, :, t, None] @ state)[:, :, 0])
        state = state + k[:, :, t, :, None] * taken[:, :, None]
        read.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(read, 2), state


def linear_steps(q, k, v, g, state):
    """Gated linear attention one step after another, in float64; the states, too."""
    read, states = [], [state]
    for t in range(k.shape[1]):
        state = g[:, t, :, :, None].exp() * state + k[:, t, :, :, None] * v[:, t, :, None]
        read.append((q[:, t, :, None] @ state)[:, :, 0] * q.shape[3] ** -0.5)
        states.append(state)
    return torch.stack(read, 1), states


def widened(tensors):
    return [x.double().requires_grad_() for x in tensors]


def all_close(found, wanted, bound):
    """Within a bound relative to the largest element."""
    for one, other in zip(found, wanted, strict=True):
        atol = bound * max(1.0, other.abs().max().item())
        torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize(("length", "chunk"), CHUNKS)
def test_delta_rule(draw, dtype, length, chunk):
    tensors = delta(draw, length, dtype=dtype)
    o, states, *kept = DeltaNetFwdOp(chunk)(*tensors)
    read, last = delta_steps(*(x.double() for x in tensors))
    all_close((o, states[:, :, -1]), (read, last), BOUND[dtype])
    assert not states[:, :, 0].any()
    _, at_bounds, *wanted = reference.delta_net(*tensors, chunk_size=chunk)
    all_close((states, *kept), (at_bounds, *wanted), BOUND[dtype])
    assert kept[0].data_ptr() != kept[1].data_ptr()


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize(("length", "chunk"), CHUNKS)
def test_gradients_of_the_delta_rule(draw, dtype, length, chunk):
    tensors = delta(draw, length, dtype=dtype)
    do = draw(2, 3, length, 6, dtype=dtype)
    leaves = widened(tensors)
    wanted = torch.autograd.grad(delta_steps(*leaves)[0], leaves, do.double())
    found = DeltaNetBwdOp(chunk)(do, *tensors, *DeltaNetFwdOp(chunk)(*tensors)[1:])
    all_close(found, wanted, BOUND[dtype])


@pytest.mark.parametrize("tokens", [1, CHANNEL_CHUNK - 3])
def test_few_gated_tokens_agree_with_differences(draw, tokens):
    q, k, v, g = (x.double().transpose(1, 2) for x in linear(draw, tokens, key=3, value=2))
    state = draw(2, 3, 3, 2).double()

    class Few(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            ctx.save_for_backward(*given)
            return run(Tokens(*given[:4], None), given[4])

        @staticmethod
        def backward(ctx, do, later):
            *given, before = ctx.saved_tensors
            found, earlier = _gradients(Tokens(*given, None), before, do, later)
            return *found, earlier

    leaves = [x.clone().requires_grad_() for x in (q, k, v, g, state)]
    assert torch.autograd.gradcheck(Few.apply, leaves, fast_mode=True)


def test_gradients_read_only_what_is_below_the_diagonal(draw):
    tensors, do = delta(draw, 12), draw(2, 3, 12, 6)
    _, states, to_w, to_u, *rest = DeltaNetFwdOp(4)(*tensors)
    wanted = DeltaNetBwdOp(4)(do, *tensors, states, to_w, to_u, *rest)
    upper = torch.full((4, 4), torch.nan).triu().repeat(3, 1)
    states[:, :, -1] = torch.nan
    poisoned = (torch.where(upper.isnan(), upper, part) for part in (to_w, to_u))
    found = DeltaNetBwdOp(4)(do, *tensors, states, *poisoned, *rest)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


def test_traffic_of_gradients_counts_halves_of_the_inverses(draw):
    tensors, do = delta(draw, 12, dtype=torch.float16), draw(2, 3, 12, 6, dtype=torch.float16)
    op = DeltaNetBwdOp(4)
    op(do, *tensors, *DeltaNetFwdOp(4)(*tensors)[1:])
    halves = 2 * (2 * 3 * 12 * 4) * 2 - 2 * (2 * 3 * 3 * (4 * 3 // 2)) * 2
    assert op.eval_roofline()[1] == op.last_call.derived_bytes() - halves


@pytest.mark.parametrize("dtype", list(BOUND))
def test_autograd_through_the_composite(draw, dtype):
    tensors, do = delta(draw, 24, dtype=dtype), draw(2, 3, 24, 6, dtype=dtype)
    wide = widened(tensors)
    wanted = torch.autograd.grad(delta_steps(*wide)[0], wide, do.double())
    op, leaves = DeltaNetAutogradFwdOp(8), [x.requires_grad_() for x in tensors]
    o = op(*leaves)
    assert torch.equal(o, DeltaNetFwdOp(8)(*(x.detach() for x in tensors))[0])
    all_close(torch.autograd.grad(o, leaves, do), wanted, BOUND[dtype])


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
)
def test_the_stages_of_the_composite_compute_its_gradients(draw, copied):
    leaves = [x.requires_grad_() for x in delta(draw, 8)]
    for op in (DeltaNetAutogradFwdOp(4), copied(DeltaNetAutogradFwdOp(4))):
        forward, backward = op.held_delegates()
        assert (forward.chunk_size, backward.chunk_size) == (4, 4)
        op(*leaves).sum().backward()
        assert backward.last_call.indices["L"] == 8
        assert forward._backward() is backward


def test_compiled_composite_goes_backward(draw):
    torch._dynamo.reset()
    op, leaves = DeltaNetAutogradFwdOp(4), [x.requires_grad_() for x in delta(draw, 8)]
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves).square().sum(), leaves)
    wanted = torch.autograd.grad(op(*leaves).square().sum(), leaves)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    torch._dynamo.reset()


def test_only_what_is_read_has_a_gradient(draw):
    o, *kept = DeltaNetFwdOp(4)(*(x.requires_grad_() for x in delta(draw, 8)))
    assert o.requires_grad
    assert not any(part.requires_grad for part in kept)


def test_second_derivatives_of_the_composite_are_refused(draw):
    leaves = [x.requires_grad_() for x in delta(draw, 8)]
    o = DeltaNetAutogradFwdOp(4)(*leaves)
    with pytest.raises(RuntimeError, match="a second derivative goes through DeltaNetBwdOp"):
        torch.autograd.grad(o.sum(), leaves, create_graph=True)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize(("length", "chunk"), CHUNKS)
@pytest.mark.parametrize("has_state", [False, True])
def test_gated_linear_attention(draw, dtype, length, chunk, has_state):
    tensors = linear(draw, length, dtype=dtype)
    first = draw(2, 3, 8, 6) if has_state else torch.zeros(2, 3, 8, 6)
    read, states = linear_steps(*(x.double() for x in tensors), first.double())
    found = GLAFwdOp(chunk)(*tensors, *([first] if has_state else []))
    all_close(found, (read, states[-1]), BOUND[dtype])


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize(("length", "chunk"), CHUNKS)
@pytest.mark.parametrize("has_state", [False, True])
def test_gradients_of_gated_linear_attention(draw, dtype, length, chunk, has_state):
    tensors = linear(draw, length, dtype=dtype)
    do, dht = draw(2, length, 3, 6, dtype=dtype), draw(2, 3, 8, 6)
    first = draw(2, 3, 8, 6) if has_state else torch.zeros(2, 3, 8, 6)
    q, k, v, g = leaves = widened(tensors)
    read, states = linear_steps(*leaves, first.double())
    arriving = do.double(), dht.double()
    wanted = torch.autograd.grad((read, states[-1]), (q, k, g, v), arriving)
    h = torch.stack(states[::chunk], 1).detach().float()
    h[:, -1] = torch.nan
    if not has_state:
        h[:, 0] = torch.nan
    op = GLABwdOp(chunk, has_initial_state=has_state)
    found = op(*tensors, h, do, dht)
    all_close(found, wanted, BOUND[dtype])
    assert {x.dtype for x in found} == {torch.float32}


def test_decays_that_underflow_forget(draw):
    q, k, v, g = linear(draw, 32)
    h, do, dht = draw(2, 3, 3, 8, 6), draw(2, 32, 3, 6), draw(2, 3, 8, 6)
    found = GLABwdOp(16)(q, k, v, torch.full_like(g, -1e4), h, do, dht)
    assert all(part.isfinite().all() for part in found)
    assert found[2].abs().max() < 1e-5


@pytest.mark.parametrize(("scale", "factor"), [(-1.0, 8**-0.5), (0.0, 8**-0.5), (0.25, 0.25)])
def test_scale_of_gated_linear_attention(draw, scale, factor):
    q, k, v, g = linear(draw, 4)
    o, state = GLAFwdOp(2, scale)(q, k, v, g)
    one, _ = GLAFwdOp(2, 1.0)(q, k, v, g)
    all_close([o], [one * factor], 1e-6)
    step, _ = GLADecodeFwdOp(scale)(q[:, 0], k[:, 0], g[:, 0], v[:, 0], torch.zeros_like(state))
    all_close([step], [o[:, 0]], 1e-6)


@pytest.mark.parametrize("dtype", list(BOUND))
def test_decoding_gives_what_one_call_gives(draw, dtype):
    bound = {torch.float32: 5e-4, torch.float16: 1e-2, torch.bfloat16: 2e-2}[dtype]
    q, k, v, beta = delta(draw, 3, dtype=dtype)
    read, state = [], torch.zeros(2, 3, 8, 6, dtype=dtype)
    for t in range(3):
        o, state = DeltaNetDecodeFwdOp()(q[:, :, t], k[:, :, t], v[:, :, t], beta[:, :, t], state)
        read.append(o)
    assert state.dtype is o.dtype is dtype
    all_close(
        (torch.stack(read, 2), state), delta_steps(*(x.double() for x in (q, k, v, beta))), bound
    )
    q, k, v, g = linear(draw, 3, dtype=dtype)
    read, state = [], torch.zeros(2, 3, 8, 6, dtype=dtype)
    wanted, states = linear_steps(*(x.double() for x in (q, k, v, g)), state.double())
    for t in range(3):
        o, state = GLADecodeFwdOp()(q[:, t], k[:, t], g[:, t], v[:, t], state)
        read.append(o)
    all_close((torch.stack(read, 1), state), (wanted, states[-1]), bound)


def test_decoding_leaves_the_state_as_it_is(draw):
    q, k, v, beta = (x[:, :, 0] for x in delta(draw, 1))
    state = draw(2, 3, 8, 6)
    before = state.clone()
    _, new = DeltaNetDecodeFwdOp()(q, k, v, beta, state)
    assert torch.equal(state, before)
    assert new.data_ptr() != state.data_ptr()


@pytest.mark.parametrize(("length", "chunk"), [(6, 4), (4, 0), (4, -2), (0, 2)])
def test_lengths_that_are_no_whole_chunks_are_refused(draw, length, chunk):
    with pytest.raises(SignatureError):
        DeltaNetFwdOp(chunk)(*delta(draw, length))
    with pytest.raises(SignatureError):
        GLAFwdOp(chunk)(*linear(draw, length))


def test_roofline_of_the_chunks(draw):
    op, composite, tensors = DeltaNetFwdOp(4), DeltaNetAutogradFwdOp(4), delta(draw, 12)
    op(*tensors)
    composite(*tensors)
    flops = 6 * 4 * 8 * 6 + 2 * 4 * 5 * 14 + 4 * 3 * 8 + 6 + 20 + 4 * (8 + 18)
    assert op.eval_roofline() == (6 * 3 * flops, op.last_call.derived_bytes())
    assert composite.eval_roofline() == (6 * 3 * flops, composite.last_call.derived_bytes())
    assert {op.roof_key(), composite.roof_key()} == {"tensor_core.tf32"}
