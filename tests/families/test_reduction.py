"""Reductions: accuracy against float64, overflow, empty axes, special values, views."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tileops.reduction import (
    AmaxFwdOp,
    MeanFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
    VectorNormFwdOp,
    reference,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INF, NAN = math.inf, math.nan
DIMS = [None, -1, 0, [0, 2], (1,), [], [-3, -1, 1]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_are_accurate(draw, close, dtype, dim, keepdim):
    x = draw(3, 17, 40, dtype=dtype)
    params = {"dim": dim, "keepdim": keepdim}
    bound = 1e-4 if dtype is torch.float32 else None
    close(AmaxFwdOp(dim, keepdim)(x), reference.amax(x, **params))
    for out, (op, expected) in itertools.product(
        (None, torch.float32), ((SumFwdOp, reference.sum), (MeanFwdOp, reference.mean))
    ):
        close(op(dim, keepdim, dtype=out)(x), expected(x, **params, dtype=out), bound)
    for order in (1, 2, INF):
        op = VectorNormFwdOp(order, dim, keepdim)
        close(op(x), reference.vector_norm(x, ord=order, **params), bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("out", [None, *DTYPES])
def test_softmax_is_accurate(draw, close, dtype, dim, out):
    x = draw(9, 130, dtype=dtype, scale=4.0)
    expected = reference.softmax(x, dim=dim, dtype=out)
    close(SoftmaxFwdOp(dim, dtype=out)(x), expected)


@pytest.mark.parametrize(("shape", "axis"), [((), 0), ((3,), 0), ((3, 4), 1), ((2, 3, 4), 0)])
def test_softmax_without_an_axis_follows_torch(draw, close, shape, axis):
    x = draw(*shape)
    close(SoftmaxFwdOp()(x), torch.softmax(x, axis))
    close(SoftmaxFwdOp()(draw(2, 3, 4, 5)), SoftmaxFwdOp(1)(draw(2, 3, 4, 5)), INF)


def test_softmax_special_values(close):
    x = torch.tensor([[-INF, -INF], [0.0, -INF], [NAN, 1.0], [1e30, 1e30]])
    close(SoftmaxFwdOp(-1)(x), torch.tensor([[NAN, NAN], [1.0, 0.0], [NAN, NAN], [0.5, 0.5]]))


def test_a_half_sum_overflows_only_at_the_output(close):
    x = torch.full((4096,), 60.0, dtype=torch.float16)
    assert SumFwdOp()(x).item() == INF
    assert SumFwdOp(dtype=torch.float32)(x).item() == 245760.0
    assert MeanFwdOp()(x).item() == 60.0


def test_a_dtype_casts_before_the_sum():
    x = torch.tensor([70000.0, 1.0])
    assert SumFwdOp(dtype=torch.float16)(x).item() == INF


@pytest.mark.parametrize("order", [1, 2, INF])
def test_a_half_norm_does_not_overflow_in_the_squares(order):
    assert VectorNormFwdOp(order)(torch.tensor([60000.0], dtype=torch.float16)).item() == 60000.0


def test_empty_axes(close):
    x = torch.empty(2, 0, 3)
    close(SumFwdOp(1)(x), torch.zeros(2, 3))
    close(MeanFwdOp(1)(x), torch.full((2, 3), NAN))
    close(VectorNormFwdOp(2, 1)(x), torch.zeros(2, 3))
    close(SumFwdOp()(x), torch.tensor(0.0))
    close(AmaxFwdOp(0)(x), torch.empty(0, 3))
    for op in (AmaxFwdOp(1), AmaxFwdOp(), VectorNormFwdOp(INF, 1)):
        with pytest.raises(ValueError, match="shape_rules"):
            op(x)


@pytest.mark.parametrize("dim", [None, 0, -1, [], [0]])
def test_zero_dimensional_input(close, dim):
    x = torch.tensor(-3.0)
    for keepdim in (False, True):
        close(SumFwdOp(dim, keepdim)(x), x)
        close(MeanFwdOp(dim, keepdim)(x), x)
        close(AmaxFwdOp(dim, keepdim)(x), x)
        close(VectorNormFwdOp(2, dim, keepdim)(x), x.abs())


def test_results_are_new_tensors():
    x = torch.ones(1, 3)
    for op in (SumFwdOp(0), MeanFwdOp(0), AmaxFwdOp(0), VectorNormFwdOp(1, 0), SoftmaxFwdOp(0)):
        assert op(x).data_ptr() != x.data_ptr()


def test_nan_wins(close):
    x = torch.tensor([[1.0, NAN], [INF, 2.0]])
    close(AmaxFwdOp(1)(x), torch.tensor([NAN, INF]))
    close(VectorNormFwdOp(INF, 1)(x), torch.tensor([NAN, INF]))


@pytest.mark.parametrize("dim", [0, [0, 1], -1])
def test_views(draw, close, dim):
    x = draw(8, 6, 10).permute(2, 0, 1)[::2, :, 1:]
    close(SumFwdOp(dim)(x), reference.sum(x, dim=dim))
    close(SumFwdOp(dim, keepdim=True)(x), reference.sum(x, dim=dim, keepdim=True))
    close(SoftmaxFwdOp(1)(x), reference.softmax(x, dim=1))


def test_spellings_of_the_same_axes_share_an_entry(draw):
    op = SumFwdOp([0, -1])
    op(draw(2, 3))
    op(draw(5, 7))
    op(draw(2, 3, 4))
    assert len(op.built_entries("reduction")) == 2
