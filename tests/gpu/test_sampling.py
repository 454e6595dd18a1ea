"""Masks of logits on the device: long and short rows, shared or not, ties, what is not finite."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tileops.sampling import (
    MinPMaskFwdOp,
    SamplingFromProbsFwdOp,
    TopKMaskFwdOp,
    TopKTopPMaskFwdOp,
    TopPMaskFwdOp,
    reference,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [(1, 128256), (17, 32000), (40, 262144), (140, 2048), (70, 50257), (5, 1)]


def ranks(rows: int, n: int) -> Tensor:
    values = torch.tensor([1, 2, 50, 1024, 1025, n // 2 + 1, max(n - 1, 1), n, 2**31 - 1])
    return values[torch.arange(rows) % 9].int().cuda()


def shares(rows: int) -> Tensor:
    values = torch.tensor([0.9, 0.0, 0.5, 1e-6, 1.0, 0.999, 2.0, math.nan])
    return values[torch.arange(rows) % 8].cuda()


def masked_above(logits: Tensor, p: Tensor) -> Tensor:
    """Top-p in float64: what its sums can tell; rows of more logits than the reference takes."""
    wide = logits.double()
    ordered, places = wide.sort(-1, descending=True)
    weights = ordered.softmax(-1)
    above = weights.cumsum(-1) - weights
    first = torch.searchsorted(-ordered, -ordered.contiguous())
    share = above.gather(-1, first)
    share = torch.zeros_like(share).scatter(-1, places, share)
    return share, torch.where(p[:, None] >= 1, -torch.inf, share) < p[:, None]


def agree(found: Tensor, logits: Tensor, p: Tensor) -> None:
    """What stays is right where the share above is not within the error of a sum of `p`."""
    share, stays = masked_above(logits, p)
    stays &= logits > -torch.inf
    near = ((share - p[:, None]).abs() < 1e-6) & (p[:, None] > 0)
    assert ((found > -torch.inf) == stays)[~near].all()
    kept = found > -torch.inf
    assert torch.equal(found[kept], logits[kept])
    # Equal logits stay or go together: the least that stays is above the greatest that goes.
    least = torch.where(kept, logits, torch.inf).amin(-1)
    most = torch.where(kept, -torch.inf, logits).amax(-1)
    assert (least > most)[kept.any(-1) & (most > -torch.inf)].all()


def served(serving, op, name: str = "logit_mask", kernel: str = "LogitMaskRadixKernel") -> None:
    assert serving(op, name) == {kernel}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_ranks_are_exact(draw, serving, shape, dtype, scale):
    x, k = draw(*shape, dtype=dtype, scale=scale), ranks(*shape)
    op = TopKMaskFwdOp()
    found = op(x, k)
    place = (k.long() - 1).clamp(max=shape[1] - 1)[:, None]
    threshold = x.sort(-1, descending=True).values.gather(1, place)
    assert torch.equal(found, x.masked_fill((x < threshold) & (k[:, None] < shape[1]), -torch.inf))
    served(serving, op)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_shares_are_those_of_float64(draw, serving, shape, dtype, scale):
    x, p = draw(*shape, dtype=dtype, scale=scale), shares(shape[0])
    op = TopPMaskFwdOp()
    agree(op(x, p), x, p)
    assert torch.equal(op(x, p), op(x, p))
    served(serving, op)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shares_are_those_of_what_ranks_leave(draw, serving, shape, dtype):
    x, k, p = draw(*shape, dtype=dtype, scale=3.0), ranks(*shape), shares(shape[0])
    op = TopKTopPMaskFwdOp()
    found = op(x, k, p)
    left = TopKMaskFwdOp()(x, k)
    agree(found, left, p)
    assert torch.equal(found, TopPMaskFwdOp()(left, p))
    served(serving, op)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shares_of_the_largest(draw, serving, shape, dtype):
    x = draw(*shape, dtype=dtype, scale=3.0)
    least = torch.tensor([0.0, 1.0, 0.1, 1e-8])[torch.arange(shape[0]) % 4].cuda()
    op = MinPMaskFwdOp()
    found = op(x, least)
    threshold = x.float().amax(-1, keepdim=True) + least.log()[:, None]
    assert torch.equal(
        found, x.masked_fill(~(x.float() >= threshold) & (least != 0)[:, None], -torch.inf)
    )
    served(serving, op, "min_p_mask", "MinPMaskTileKernel")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [9, 20000])
def test_ties_and_what_is_not_finite(draw, dtype, n):
    x = (draw(8, n) * 3).round().to(dtype)
    x[1, ::3] = -torch.inf
    x[2, n // 2] = torch.nan
    x[3, n // 3] = torch.inf
    x[4] = -torch.inf
    x[5, 1::2], x[5, ::4] = -0.0, 0.0
    x[6] = 1.5
    k = torch.tensor([5, 5, 5, 5, 5, 5, 5, n], dtype=torch.int32)
    k[1] = n - n // 4  # the last is -inf
    p = torch.tensor([0.9, 0.3, 0.9, 0.9, 0.9, 0.6, 0.5, 0.8])
    host = x.cpu()
    for op, settings in (
        (TopKMaskFwdOp(), (k,)),
        (TopPMaskFwdOp(), (p,)),
        (TopKTopPMaskFwdOp(), (k, p)),
        (MinPMaskFwdOp(), (p,)),
    ):
        wide = op(host, *settings)
        found = op(x, *(setting.cuda() for setting in settings)).cpu()
        assert torch.equal(found, wide), type(op).__name__


def test_masks_of_views_in_graphs(draw):
    x = draw(20, 33000, dtype=torch.bfloat16)[:, 5:32005]
    k, p = ranks(20, 32000), shares(20)
    op = TopKTopPMaskFwdOp()
    expected = op(x, k, p)
    assert torch.equal(expected, op(x.contiguous(), k, p))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = op(x, k, p)
    output.zero_()
    graph.replay()
    assert torch.equal(output, expected)


@pytest.mark.parametrize("shape", [(1, 128256), (64, 50257)])
def test_draws_are_those_of_the_state(draw, serving, shape):
    weights = draw(*shape, scale=2.0).softmax(-1)
    state = torch.tensor([2**40 + 7]), torch.tensor([-3])
    op = SamplingFromProbsFwdOp()
    drawn = op(weights, *(word.cuda() for word in state)).cpu()
    assert torch.equal(drawn, reference.sampling_from_probs(weights.cpu(), *state))
    assert serving(op, "sampling") == {"SamplingTileKernel"}
