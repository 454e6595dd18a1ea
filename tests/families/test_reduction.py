"""Reductions: accuracy against float64, overflow, empty axes, special values, views."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import pytest
import torch

from tileops.errors import SignatureError, SignatureTypeError
from tileops.reduction import (
    AllFwdOp,
    AmaxFwdOp,
    AminFwdOp,
    AnyFwdOp,
    ArgmaxFwdOp,
    ArgminFwdOp,
    CountNonzeroFwdOp,
    LogSoftmaxBwdOp,
    LogSoftmaxFwdOp,
    LogSumExpFwdOp,
    MeanFwdOp,
    ProdFwdOp,
    SoftmaxBwdOp,
    SoftmaxFwdOp,
    StdFwdOp,
    SumFwdOp,
    VarFwdOp,
    VarMeanFwdOp,
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
    close(AminFwdOp(dim, keepdim)(x), reference.amin(x, **params))
    for correction in (1, 0, None, 2.5):
        more = {**params, "correction": correction}
        close(VarFwdOp(**more)(x), reference.var(x, **more), bound)
        close(StdFwdOp(**more)(x), reference.std(x, **more), bound)
        for found, expected in zip(
            VarMeanFwdOp(**more)(x), reference.var_mean(x, **more), strict=True
        ):
            close(found, expected, bound)
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
    close(SoftmaxFwdOp(dim, dtype=out)(x), reference.softmax(x, dim=dim, dtype=out))
    close(LogSoftmaxFwdOp(dim, dtype=out)(x), reference.log_softmax(x, dim=dim, dtype=out))


@pytest.mark.parametrize(("shape", "axis"), [((), 0), ((3,), 0), ((3, 4), 1), ((2, 3, 4), 0)])
def test_softmax_without_an_axis_follows_torch(draw, close, shape, axis):
    x = draw(*shape)
    close(SoftmaxFwdOp()(x), torch.softmax(x, axis))
    close(LogSoftmaxFwdOp()(x), torch.log_softmax(x, axis))
    close(SoftmaxFwdOp()(draw(2, 3, 4, 5)), SoftmaxFwdOp(1)(draw(2, 3, 4, 5)), INF)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, -1])
def test_gradients_of_softmax_are_accurate(draw, close, dtype, dim):
    x, grad = draw(3, 130, dtype=dtype, scale=3.0), draw(3, 130, dtype=dtype)
    bound = 1e-5 if dtype is torch.float32 else 4e-3 if dtype is torch.float16 else 2e-2
    for forward, backward, function in (
        (SoftmaxFwdOp, SoftmaxBwdOp, reference.softmax_bwd),
        (LogSoftmaxFwdOp, LogSoftmaxBwdOp, reference.log_softmax_bwd),
    ):
        y = forward(dim)(x)
        close(backward(dim)(grad, y), function(grad, y, dim=dim), bound)


def test_a_softmax_of_another_dtype_has_the_gradient_of_its_input():
    x = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
    (SoftmaxFwdOp(-1, dtype=torch.float32)(x) * torch.tensor([3.0, 0, 0])).sum().backward()
    assert x.grad.dtype is torch.bfloat16
    torch.testing.assert_close(x.grad[0].float(), torch.tensor([2, -1, -1]) / 3, rtol=1e-2, atol=0)


def test_softmax_special_values(close):
    x = torch.tensor([[-INF, -INF], [0.0, -INF], [NAN, 1.0], [1e30, 1e30]])
    expected = torch.tensor([[NAN, NAN], [1.0, 0.0], [NAN, NAN], [0.5, 0.5]])
    close(SoftmaxFwdOp(-1)(x), expected)
    close(LogSoftmaxFwdOp(-1)(x), expected.log())


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
    close(ProdFwdOp(1)(x), torch.ones(2, 3))
    close(VarFwdOp(1)(x), torch.full((2, 3), NAN))
    close(LogSumExpFwdOp(1)(x), torch.full((2, 3), -INF))
    assert AllFwdOp(1)(x).all()
    assert not AnyFwdOp(1)(x).any()
    assert CountNonzeroFwdOp()(x).item() == 0
    for op in (AmaxFwdOp, AminFwdOp, ArgmaxFwdOp, ArgminFwdOp):
        assert op(0)(x).shape == (0, 3)
        for dim in (1, None):
            with pytest.raises(SignatureError, match=r"shape_rules\[1\]"):
                op(dim)(x)
    with pytest.raises(SignatureError, match="shape_rules"):
        VectorNormFwdOp(INF, 1)(x)


@pytest.mark.parametrize("dim", [None, 0, -1, [], [0]])
def test_zero_dimensional_input(close, dim):
    x = torch.tensor(-3.0)
    for keepdim in (False, True):
        close(SumFwdOp(dim, keepdim)(x), x)
        close(MeanFwdOp(dim, keepdim)(x), x)
        close(AmaxFwdOp(dim, keepdim)(x), x)
        close(VectorNormFwdOp(2, dim, keepdim)(x), x.abs())
        close(AminFwdOp(dim, keepdim)(x), x)
        close(VarFwdOp(dim, keepdim=keepdim, correction=0)(x), torch.tensor(0.0))
        assert AllFwdOp(dim, keepdim)(x).item() is AnyFwdOp(dim, keepdim)(x).item() is True
        assert CountNonzeroFwdOp(dim)(x).item() == 1


@pytest.mark.parametrize("dim", [0, -1])
def test_zero_dimensional_input_along_its_one_axis(close, dim):
    x = torch.tensor(-3.0)
    close(ProdFwdOp(dim)(x), x)
    close(LogSumExpFwdOp(dim)(x), x)
    close(LogSoftmaxFwdOp(dim)(x), torch.tensor(0.0))
    assert ArgmaxFwdOp(dim)(x).item() == ArgminFwdOp(dim, True)(x).item() == 0


def test_results_are_new_tensors():
    x = torch.ones(1, 3)
    for op in (
        SumFwdOp(0), MeanFwdOp(0), ProdFwdOp(0), AmaxFwdOp(0), VectorNormFwdOp(1, 0),
        SoftmaxFwdOp(0), LogSumExpFwdOp(0),
    ):  # fmt: skip
        assert op(x).data_ptr() != x.data_ptr()
    truths = torch.tensor([True])
    assert AllFwdOp([])(truths).data_ptr() != truths.data_ptr()


def test_nan_wins(close):
    x = torch.tensor([[1.0, NAN], [INF, 2.0]])
    close(AmaxFwdOp(1)(x), torch.tensor([NAN, INF]))
    close(AminFwdOp(1)(x), torch.tensor([NAN, 2.0]))
    assert ArgmaxFwdOp(1)(x).tolist() == [1, 0]
    assert ArgminFwdOp(1)(x).tolist() == [1, 1]
    close(VectorNormFwdOp(INF, 1)(x), torch.tensor([NAN, INF]))


@pytest.mark.parametrize("dim", [0, [0, 1], -1])
def test_views(draw, close, dim):
    x = draw(8, 6, 10).permute(2, 0, 1)[::2, :, 1:]
    close(SumFwdOp(dim)(x), reference.sum(x, dim=dim))
    close(SumFwdOp(dim, keepdim=True)(x), reference.sum(x, dim=dim, keepdim=True))
    close(SoftmaxFwdOp(1)(x), reference.softmax(x, dim=1))
    close(VarFwdOp(dim)(x), reference.var(x, dim=dim))
    close(LogSumExpFwdOp(dim)(x), reference.log_sum_exp(x, dim=dim))
    close(ArgmaxFwdOp(1)(x), reference.argmax(x, dim=1))
    repeated = x[:1].expand(4, -1, -1)
    close(SumFwdOp(dim)(repeated), reference.sum(repeated, dim=dim))


def test_spellings_of_the_same_axes_share_an_entry(draw):
    op = SumFwdOp([0, -1])
    op(draw(2, 3))
    op(draw(5, 7))
    op(draw(2, 3, 4))
    assert len(op.built_entries("reduction")) == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_of_one_axis_are_accurate(draw, close, dtype, dim, keepdim):
    x = draw(90, 800, dtype=dtype, scale=0.05) + 1
    for out in (None, *DTYPES):
        expected = reference.prod(x, dim=dim, keepdim=keepdim, dtype=out)
        close(ProdFwdOp(dim, keepdim, dtype=out)(x), expected, 1e-4 if dtype is out else None)
    for op, expected in ((ArgmaxFwdOp, reference.argmax), (ArgminFwdOp, reference.argmin)):
        close(op(dim, keepdim)(x), expected(x, dim=dim, keepdim=keepdim))
    close(LogSumExpFwdOp(dim, keepdim)(x), reference.log_sum_exp(x, dim=dim, keepdim=keepdim))
    for op in (AllFwdOp, AnyFwdOp):
        rounded = x.round() - 1
        close(op(dim, keepdim)(rounded), (rounded != 0).all(dim, keepdim) if op is AllFwdOp
              else (rounded != 0).any(dim, keepdim))  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [[0, 2], (1, -1), [-3]])
def test_logsumexp_takes_several_axes(draw, close, dtype, dim):
    x = draw(30, 40, 90, dtype=dtype, scale=4.0)
    for keepdim in (False, True):
        expected = reference.log_sum_exp(x, dim=dim, keepdim=keepdim)
        close(LogSumExpFwdOp(dim, keepdim)(x), expected)


def test_logsumexp_special_values(close):
    x = torch.tensor([[-INF, -INF], [INF, 1.0], [NAN, 1.0], [1e30, -1e30]])
    close(LogSumExpFwdOp(-1)(x), torch.tensor([-INF, INF, NAN, 1e30]))
    with pytest.raises(SignatureError, match="reduced needs at least one axis"):
        LogSumExpFwdOp([])(x)


def test_half_sums_of_exponentials_do_not_overflow(close):
    x = torch.zeros(3, 70000, dtype=torch.float16)
    expected = torch.full((3,), math.log(70000), dtype=torch.float16)
    close(LogSumExpFwdOp(1)(x), expected)
    close(LogSumExpFwdOp(0)(x.T), expected)


def test_a_half_product_is_rounded_once(draw):
    x = 1 + draw(200, 400, dtype=torch.float16, scale=0.02)
    assert torch.equal(ProdFwdOp(1)(x), x.float().prod(1).half())


def test_an_extreme_of_several_has_the_first_place():
    x = torch.tensor([[1.0, 3.0, 3.0], [3.0, NAN, NAN]])
    assert ArgmaxFwdOp(1)(x).tolist() == [1, 1]
    assert ArgmaxFwdOp(0)(x).tolist() == [1, 1, 1]
    assert ArgmaxFwdOp()(x).tolist() == ArgminFwdOp()(x).tolist() == 4
    assert ArgmaxFwdOp(None, True)(x[:1]).tolist() == [[1]]
    assert ArgminFwdOp(keepdim=True)(torch.ones(2, 3, 4)).shape == (1, 1, 1)
    assert ArgminFwdOp()(torch.ones(2, 3)).item() == 0


@pytest.mark.parametrize("correction", [2, 3, 2.5, None])
def test_no_degrees_of_freedom_give_nan(close, correction):
    x = torch.tensor([[1.0, 2.0], [3.0, 3.0]])[:, : 1 if correction is None else 2]
    params = {"dim": 1, "correction": correction}
    nans = torch.full((2,), NAN)
    close(VarFwdOp(**params)(x), nans)
    close(StdFwdOp(**params)(x), nans)
    spread, mean = VarMeanFwdOp(**params)(x)
    close(spread, nans)
    close(mean, reference.mean(x, dim=1))


def test_a_variance_keeps_its_digits_far_from_zero(close):
    x = torch.tensor([1e4 + 1, 1e4 + 2, 1e4 + 3])
    close(VarFwdOp()(x), torch.tensor(1.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [-300.0, 300.0])
@pytest.mark.parametrize(("shape", "dim"), [((5, 4097), 1), ((4100, 3), 0), ((3, 70, 90), 1)])
def test_reductions_of_data_far_from_zero_are_accurate(draw, close, dtype, offset, shape, dim):
    x = (draw(*shape) + offset).to(dtype)
    bound = 1e-4 if dtype is torch.float32 else None
    for op, expected in (
        (SoftmaxFwdOp, reference.softmax),
        (LogSoftmaxFwdOp, reference.log_softmax),
        (LogSumExpFwdOp, reference.log_sum_exp),
        (MeanFwdOp, reference.mean),
        (SumFwdOp, reference.sum),
        (StdFwdOp, reference.std),
        (VarFwdOp, reference.var),
        (VectorNormFwdOp, reference.vector_norm),
    ):
        close(op(dim=dim)(x), expected(x, dim=dim), bound)
    for found, wanted in zip(VarMeanFwdOp(dim=dim)(x), reference.var_mean(x, dim=dim), strict=True):
        close(found, wanted, bound)


def test_a_complex_correction_is_refused():
    with pytest.raises(SignatureError, match=r"category\(correction.value\) != 'complex'"):
        VarFwdOp(correction=1j)


def test_keepdim_of_a_spread_is_given_by_name():
    for op in (VarFwdOp, StdFwdOp, VarMeanFwdOp):
        with pytest.raises(SignatureTypeError):
            op(0, True)


@pytest.mark.parametrize("op", [AllFwdOp, AnyFwdOp])
def test_no_axis_reduces_no_truth(op):
    x = torch.tensor([[1.0, 0.0, NAN]])
    assert op([])(x).tolist() == op((), True)(x).tolist() == [[True, False, True]]
    assert op()(x).shape == ()
    assert op(None, True)(x).shape == (1, 1)
    with pytest.raises(SignatureError, match="uint8 is not in T"):
        op()(x.to(torch.uint8))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int32, torch.int64, torch.complex64, torch.complex128, *DTYPES]
)
def test_truths_of_every_dtype(dtype):
    x = torch.tensor([[1, 0, 1], [1, 1, 1]]).to(dtype)
    assert AllFwdOp(1)(x).tolist() == [False, True]
    assert AnyFwdOp([0, 1])(x).item() is True
    assert CountNonzeroFwdOp(0)(x).tolist() == [2, 1, 2]
    assert CountNonzeroFwdOp([])(x).item() == 5


def test_counts_nan():
    x = torch.tensor([NAN, 0.0, -0.0, INF])
    assert CountNonzeroFwdOp()(x).item() == 2
    assert AnyFwdOp()(x[:1]).item() is True
    imaginary = torch.tensor([1j, 0])
    assert AllFwdOp([0])(imaginary).item() is False
    assert CountNonzeroFwdOp()(imaginary).item() == 1


@pytest.mark.parametrize("op", [SumFwdOp, AmaxFwdOp, VarFwdOp, AllFwdOp, LogSumExpFwdOp])
@pytest.mark.parametrize(
    ("dim", "fault"),
    [
        ([0, -2], "unique_axes"),
        ([1, 1], "unique_axes"),
        (2, "valid_axes"),
        (-3, "valid_axes"),
        ([0, 5], "valid_axes"),
    ],
)
def test_axes_that_repeat_or_do_not_exist_are_refused(op, dim, fault):
    with pytest.raises(SignatureError, match=fault):
        op(dim)(torch.ones(2, 3))


def test_axes_in_a_list_are_those_of_the_construction():
    axes, x = [0], torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    op = SumFwdOp(axes)
    axes[0] = 1
    for each in (op, copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert each(x).tolist() == [4.0, 6.0]
        assert each.dim == (0,)
