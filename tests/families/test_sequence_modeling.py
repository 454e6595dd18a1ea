"""Hyper-connections: coefficients, Sinkhorn's iteration, widths that do not fit."""

from __future__ import annotations

import pytest
import torch

from tileops.errors import SignatureError
from tileops.sequence_modeling import MHCPostFwdOp, MHCPreFwdOp, reference
from tileops.testing.compiling import Graphs

BF16 = torch.bfloat16


def stream(draw, tokens, n, width):
    q = n * n + 2 * n
    return draw(n * width, q, scale=0.05), draw(tokens, n * width, dtype=BF16), draw(q)


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("rounds", [0, 1, 20])
def test_streams_mix(draw, close, n, width, rounds):
    tensors = stream(draw, 5, n, width)
    params = {"alpha_pre": 0.7, "alpha_post": 1.3, "alpha_res": 0.9, "sinkhorn_repeat": rounds}
    found = MHCPreFwdOp(**params)(*tensors)
    for one, other in zip(found, reference.mhc_pre(*tensors, **params), strict=True):
        close(one, other, 2e-2 if one.dtype is BF16 else 1e-3)


def test_many_rounds_make_the_mixture_doubly_stochastic(draw):
    phi, _, b = stream(draw, 1, 4, 8)
    op = MHCPreFwdOp(1.0, 1.0, 1.0, 200, 0.0)
    unit = torch.eye(4).repeat_interleave(8, 1).view(4, 32).to(BF16)
    mixed, _, _ = op(phi * 0, torch.ones(1, 32, dtype=BF16), b)
    torch.testing.assert_close(mixed.float(), torch.ones(1, 32), rtol=1e-2, atol=1e-2)
    columns = torch.stack([op(phi * 0, row[None], b)[0] for row in unit]).float()
    total = columns.view(4, 4, 8).sum(1)
    torch.testing.assert_close(total, torch.ones(4, 8), rtol=2e-2, atol=2e-2)


def test_a_layer_between_pre_and_post(draw, close):
    tensors = stream(draw, 3, 4, 16)
    x_res, x_layer, h_post = MHCPreFwdOp(1.0, 1.0, 1.0, 2)(*tensors)
    out = MHCPostFwdOp()(x_layer.tanh(), h_post, x_res)
    close(out, reference.mhc_post(x_layer.tanh(), h_post, x_res))
    assert 0 < h_post.min() <= h_post.max() < 2


def test_a_number_of_coefficients_that_fits_no_copies_is_refused(draw):
    op = MHCPreFwdOp(1.0, 1.0, 1.0, 1)
    with pytest.raises(SignatureError, match="mhc.expansion") as raised:
        op(draw(8, 9), draw(2, 8, dtype=BF16), draw(9))
    assert raised.value.declaration.startswith("let.n")
    with pytest.raises(SignatureError, match="C % n == 0"):
        op(draw(9, 8), draw(2, 9, dtype=BF16), draw(8))


def test_no_token_is_an_empty_result(draw):
    phi, x, b = stream(draw, 1, 2, 4)
    found = MHCPreFwdOp(1.0, 1.0, 1.0, 1)(phi, x[:0], b)
    assert [tuple(part.shape) for part in found] == [(0, 8), (0, 4), (0, 2)]


def test_token_counts_do_not_make_entries(draw):
    pre, post = MHCPreFwdOp(1.0, 1.0, 1.0, 1), MHCPostFwdOp()
    for tokens in range(1, 5):
        x_res, x_layer, h_post = pre(*stream(draw, tokens, 2, 4))
        post(x_layer, h_post, x_res)
    assert len(pre.built_entries("mhc_pre")) == len(post.built_entries("mhc_post")) == 1


def test_each_number_of_streams_is_compiled_once(draw):
    torch._dynamo.reset()
    op, graphs = MHCPreFwdOp(1.0, 1.0, 1.0, 1), Graphs()
    compiled = torch.compile(op, fullgraph=True, backend=graphs, dynamic=True)
    for n in (2, 3):
        for tokens, width in ((5, 6), (7, 8), (9, 11)):
            tensors = stream(draw, tokens, n, width)
            for one, other in zip(compiled(*tensors), op(*tensors), strict=True):
                assert torch.equal(one, other)
    torch._dynamo.reset()
    assert len(graphs.calls) == 2
