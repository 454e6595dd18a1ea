"""Scans: accuracy against float64, carries in float32, special values, views."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.errors import SignatureError
from tileops.reduction import CumprodFwdOp, CumsumFwdOp, reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INF, NAN = math.inf, math.nan
SCANS = [(CumsumFwdOp, reference.cumsum), (CumprodFwdOp, reference.cumprod)]


@pytest.mark.parametrize(("op", "expected"), SCANS, ids=["sum", "prod"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1, -3])
def test_is_accurate(draw, close, op, expected, dtype, dim):
    x = draw(3, 170, 5, dtype=dtype, scale=0.1) + 1
    bound = 1e-4 if dtype is torch.float32 else None
    close(op(dim)(x), expected(x, dim=dim), bound)
    view = x.transpose(0, 1)[1:, :, ::2]
    close(op(dim)(view), expected(view, dim=dim), bound)
    close(op(1)(x[:1].expand(4, -1, -1)), expected(x[:1].expand(4, -1, -1), dim=1), bound)


def test_a_half_carry_does_not_stick():
    ones = torch.ones(3000, dtype=torch.float16)
    assert CumsumFwdOp()(ones)[-1].item() == 3000
    assert CumsumFwdOp(0)(ones.repeat(2, 1).T)[-1].tolist() == [3000, 3000]


def test_a_half_carry_leaves_the_range_and_returns():
    x = torch.tensor([60000.0, 60000.0, -60000.0], dtype=torch.float16)
    assert CumsumFwdOp()(x).tolist() == [60000.0, INF, 60000.0]


def test_infinities_cancel_to_nan_from_there_on(close):
    x = torch.tensor([1.0, INF, -INF, 2.0])
    close(CumsumFwdOp()(x), torch.tensor([1.0, INF, NAN, NAN]))
    close(CumprodFwdOp()(torch.tensor([2.0, INF, 0.0, 1.0])), torch.tensor([2.0, INF, NAN, NAN]))


@pytest.mark.parametrize("op", [CumsumFwdOp, CumprodFwdOp])
def test_empty_and_scalar_inputs(op):
    assert op(1)(torch.empty(2, 0, 3)).shape == (2, 0, 3)
    assert op(0)(torch.empty(2, 0)).shape == (2, 0)
    assert op()(torch.tensor([5.0])).tolist() == [5.0]
    with pytest.raises(SignatureError, match=r"len\(S\) > 0"):
        op()(torch.tensor(1.0))
    with pytest.raises(SignatureError, match="valid_axes"):
        op(2)(torch.ones(2, 3))
