"""Sampling: thresholds, ties, rows that are masked already, draws by seed, offset and row."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.errors import SignatureError
from tileops.sampling import (
    MinPMaskFwdOp,
    SamplingFromProbsFwdOp,
    TopKMaskFwdOp,
    TopKTopPMaskFwdOp,
    TopPMaskFwdOp,
    reference,
)
from tileops.sampling.kernels import sharing

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INF = math.inf


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 300])
def test_filters_are_exact(draw, close, dtype, width):
    x = draw(8, width, dtype=dtype, scale=2.0)
    k = ints(1, 2, 3, 7, 40, 299, 300, 2**31 - 1)
    p = torch.tensor([0.0, 0.1, 0.37, 0.5, 0.8, 0.999, 1.0, 2.0])
    close(TopKMaskFwdOp()(x, k), reference.topk_mask(x, k), 0)
    close(TopPMaskFwdOp()(x, p), reference.topp_mask(x, p), 0)
    close(MinPMaskFwdOp()(x, p), reference.minp_mask(x, p), 0)
    close(TopKTopPMaskFwdOp()(x, k, p), reference.topk_topp_mask(x, k, p), 0)
    composed = TopPMaskFwdOp()(TopKMaskFwdOp()(x, k), p)
    close(TopKTopPMaskFwdOp()(x, k, p), composed, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_stays_is_bit_identical(draw, dtype):
    x = draw(3, 50, dtype=dtype)
    y = TopKTopPMaskFwdOp()(x, ints(20, 30, 99), torch.tensor([0.5, 0.9, 0.99]))
    stays = y != -INF
    assert torch.equal(y[stays], x[stays])
    assert 0 < stays.sum() < x.numel()


def test_ties_stay_or_go_together(close):
    x = row(1.0, 3.0, 2.0, 3.0, 2.0, 0.0)
    close(TopKMaskFwdOp()(x, ints(1)), row(-INF, 3.0, -INF, 3.0, -INF, -INF))
    close(TopKMaskFwdOp()(x, ints(3)), row(-INF, 3.0, 2.0, 3.0, 2.0, -INF))
    close(TopPMaskFwdOp()(x, torch.tensor([0.01])), row(-INF, 3.0, -INF, 3.0, -INF, -INF))
    flat = torch.zeros(1, 8)
    close(TopPMaskFwdOp()(flat, torch.tensor([0.1])), flat)


def test_p_at_its_ends(close):
    x = row(1.0, 3.0, -INF, 2.0)
    close(TopPMaskFwdOp()(x, torch.tensor([0.0])), torch.full((1, 4), -INF))
    close(TopPMaskFwdOp()(x, torch.tensor([1.0])), x)
    close(MinPMaskFwdOp()(x, torch.tensor([0.0])), x)
    close(MinPMaskFwdOp()(x, torch.tensor([1.0])), row(-INF, 3.0, -INF, -INF))
    close(MinPMaskFwdOp()(row(INF, 1.0), torch.tensor([0.0])), row(INF, 1.0))


def test_all_stay_from_a_whole_share_on(draw, close):
    # Equal logits and a tail that no sum of float32 can tell from nothing.
    x = torch.cat((draw(2, 300, dtype=torch.float16).round(), torch.full((2, 9), -200.0).half()), 1)
    x[1, 4] = INF
    p = torch.tensor([1.0, 3.0])
    close(TopPMaskFwdOp()(x, p), x, 0)
    close(TopKTopPMaskFwdOp()(x, ints(50, 400), p), TopKMaskFwdOp()(x, ints(50, 400)), 0)


def test_what_is_no_number(close):
    nan = math.nan
    x = row(1.0, nan, 3.0, 2.0)
    nothing = torch.full((1, 4), -INF)
    close(TopKMaskFwdOp()(x, ints(1)), nothing)  # the largest is the NaN
    close(TopKMaskFwdOp()(x, ints(3)), row(-INF, -INF, 3.0, 2.0))
    torch.testing.assert_close(TopKMaskFwdOp()(x, ints(4)), x, rtol=0, atol=0, equal_nan=True)
    close(TopPMaskFwdOp()(x, torch.tensor([0.9])), nothing)
    torch.testing.assert_close(
        TopPMaskFwdOp()(x, torch.tensor([1.0])), x, rtol=0, atol=0, equal_nan=True
    )
    close(TopKTopPMaskFwdOp()(x, ints(3), torch.tensor([0.5])), row(-INF, -INF, 3.0, -INF))
    close(TopKTopPMaskFwdOp()(x, ints(9), torch.tensor([0.5])), nothing)
    close(TopPMaskFwdOp()(row(INF, 1.0), torch.tensor([0.5])), row(-INF, -INF))
    close(TopPMaskFwdOp()(row(2.0, 1.0), torch.tensor([nan])), row(-INF, -INF))


@pytest.mark.parametrize("shape", [(6, 1), (6, 40)])
def test_rows_of_any_kind_are_those_of_the_reference(draw, close, shape):
    x = draw(*shape, dtype=torch.float16).round()
    x[0, 0], x[1, -1], x[2] = math.nan, INF, -INF
    x[3, ::2], x[3, 1::2] = -0.0, 0.0
    k = ints(2, 3, 1, 5, 40, 41)
    p = torch.tensor([0.5, 0.3, 0.9, 0.4, 0.8, math.nan])
    close(TopKMaskFwdOp()(x, k), reference.topk_mask(x, k), 0)
    close(TopPMaskFwdOp()(x, p), reference.topp_mask(x, p), 0)
    close(MinPMaskFwdOp()(x, p), reference.minp_mask(x, p), 0)
    close(TopKTopPMaskFwdOp()(x, k, p), reference.topk_topp_mask(x, k, p), 0)


@pytest.mark.parametrize(
    ("rows", "n", "blocks"),
    [(1, 128256, 8), (1, 5000, 1), (17, 128256, 4), (66, 9000, 2), (67, 9000, 1)],
)
def test_few_long_rows_are_shared(rows, n, blocks):
    assert sharing(rows, n) == blocks


def test_rows_that_are_masked_already(close):
    x = torch.full((1, 5), -INF)
    p, k = torch.tensor([0.5]), ints(2)
    for masked in (
        TopKMaskFwdOp()(x, k),
        TopPMaskFwdOp()(x, p),
        MinPMaskFwdOp()(x, p),
        TopKTopPMaskFwdOp()(x, k, p),
    ):
        close(masked, x)
    partly = row(-INF, 2.0, -INF, 1.0)
    close(TopKMaskFwdOp()(partly, ints(3)), partly)
    close(TopPMaskFwdOp()(partly, torch.tensor([0.1])), row(-INF, 2.0, -INF, -INF))


def test_top_p_is_renormalised_over_the_survivors(close):
    x = row(*map(math.log, (0.4, 0.3, 0.2, 0.1)))
    # Of the two survivors the first has 4 / 7 of the mass, not 0.4.
    close(TopKTopPMaskFwdOp()(x, ints(2), torch.tensor([0.5])), row(math.log(0.4), *[-INF] * 3))
    close(TopPMaskFwdOp()(x, torch.tensor([0.5])), row(math.log(0.4), math.log(0.3), -INF, -INF))


def test_views(draw, close):
    x, k = draw(40, 6).T[1:, ::2], ints(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)[::2]
    p = torch.full((1,), 0.6).expand(5)
    close(TopKTopPMaskFwdOp()(x, k, p), reference.topk_topp_mask(x, k, p), 0)
    weights = x.softmax(-1).T.contiguous().T
    state = torch.tensor([3]), torch.tensor([4])
    drawn = SamplingFromProbsFwdOp()(weights, *state)
    assert torch.equal(drawn, SamplingFromProbsFwdOp()(weights.contiguous(), *state))


def test_top_k_work_depends_on_k(draw):
    op = TopKMaskFwdOp()
    op(draw(3, 10), ints(2, 10, 50))
    assert op.eval_roofline() == (20, 4 * (30 + 3 + 30))
    both = TopKTopPMaskFwdOp()
    both(draw(3, 10), ints(2, 10, 50), torch.ones(3))
    assert both.eval_roofline() == (20 + 7 * (2 + 10 + 10) + 30, 4 * (30 + 3 + 3 + 30))


def test_an_empty_vocabulary():
    assert TopKMaskFwdOp()(torch.empty(2, 0), ints(1, 1)).shape == (2, 0)
    with pytest.raises(SignatureError, match="V > 0"):
        TopPMaskFwdOp()(torch.empty(2, 0), torch.ones(2))
    state = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    assert SamplingFromProbsFwdOp()(torch.empty(2, 0), *state).tolist() == [-1, -1]
    assert SamplingFromProbsFwdOp()(torch.empty(0, 5), *state).shape == (0,)


@pytest.mark.parametrize("seed", [0, -5, 2**40 + 7])
@pytest.mark.parametrize("offset", [0, 2**33 + 1])
def test_draws_are_those_of_the_state(draw, close, seed, offset):
    weights = draw(40, 90).softmax(-1) * 7
    state = torch.tensor([seed]), torch.tensor([offset])
    drawn = SamplingFromProbsFwdOp()(weights, *state)
    close(drawn, reference.sampling_from_probs(weights, *state))
    assert torch.equal(drawn, SamplingFromProbsFwdOp()(weights, *state))
    assert torch.equal(drawn[:7], SamplingFromProbsFwdOp()(weights[:7], *state))
    other = SamplingFromProbsFwdOp()(weights, state[0], state[1] + 1)
    assert not torch.equal(drawn, other)


def test_draws_follow_the_weights():
    shares = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05])
    counts, offsets, rows = torch.zeros(5), 40, 500
    op = SamplingFromProbsFwdOp()
    for offset in range(offsets):
        drawn = op(shares.expand(rows, 5), torch.tensor([11]), torch.tensor([offset]))
        counts += torch.bincount(drawn, minlength=5)
    wanted = shares * offsets * rows
    assert counts[1] == 0
    chi_square = ((counts - wanted).square() / wanted)[wanted > 0].sum().item()
    assert chi_square < 16.3  # 0.1 % of right draws with 3 degrees of freedom exceed this


def test_only_positive_weights_are_drawn():
    weights = torch.zeros(300, 9)
    weights[:, 4] = 1e-30
    weights[:, 6] = -3.0
    state = torch.tensor([1]), torch.tensor([2])
    assert (SamplingFromProbsFwdOp()(weights, *state) == 4).all()
    assert (SamplingFromProbsFwdOp()(torch.zeros(3, 9), *state) == 8).all()
