"""Convolution: accuracy against float64, padding, groups, rounding once, limits, views."""

from __future__ import annotations

import pytest
import torch

from tileops.convolution import Conv1dFwdOp, Conv2dFwdOp, Conv3dFwdOp, reference
from tileops.errors import SignatureError

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
CASES = {
    1: (Conv1dFwdOp, reference.conv1d, (2, 6, 20), (3,)),
    2: (Conv2dFwdOp, reference.conv2d, (2, 6, 9, 12), (3, 2)),
    3: (Conv3dFwdOp, reference.conv3d, (2, 6, 5, 6, 7), (2, 3, 1)),
}
SETTINGS = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": "valid"},
    {"padding": "same"},
    {"padding": "same", "dilation": 3},
    {"groups": 3, "padding": 2},
    {"groups": 6},
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", CASES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_is_accurate(draw, close, dtype, axes, settings):
    op, expected, shape, kernel = CASES[axes]
    x = draw(*shape, dtype=dtype)
    weight = draw(12, 6 // settings.get("groups", 1), *kernel, dtype=dtype)
    bias = draw(12, dtype=dtype)
    close(op(**settings)(x, weight), expected(x, weight, **settings))
    close(op(**settings)(x, weight, bias), expected(x, weight, bias, **settings))


def test_one_value_for_each_axis(draw, close):
    x, weight = draw(1, 2, 9, 10), draw(3, 2, 2, 3)
    params = {"stride": (2, 1), "padding": [0, 2], "dilation": (1, 2)}
    close(Conv2dFwdOp(**params)(x, weight), reference.conv2d(x, weight, **params))
    with pytest.raises(SignatureError, match=r"params\.stride"):
        Conv2dFwdOp(stride=(1, 2, 3))


def test_an_odd_zero_of_same_goes_to_the_right(close):
    x, weight = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[1.0, 10.0]]])
    close(Conv1dFwdOp(padding="same")(x, weight), torch.tensor([[[21.0, 32.0, 3.0]]]))


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_the_bias_is_added_before_rounding(draw, dtype):
    x, weight = draw(1, 4, 50, dtype=dtype), draw(8, 4, 3, dtype=dtype)
    bias = draw(8, dtype=dtype, scale=100.0)
    exact = reference.conv1d(x, weight, bias)
    found = Conv1dFwdOp()(x, weight, bias)
    assert (found != exact).float().mean() < 0.02
    twice = reference.conv1d(x, weight) + bias[:, None]
    assert (twice != exact).float().mean() > 0.05


def test_half_sums_do_not_overflow(close):
    x = torch.full((1, 64, 9), 60.0, dtype=torch.float16)
    weight = torch.full((1, 64, 9), 60.0, dtype=torch.float16)
    weight[:, 32:] = -60.0
    close(Conv1dFwdOp()(x, weight), torch.zeros(1, 1, 1, dtype=torch.float16))


def test_views(draw, close):
    x, weight = draw(9, 12, 4).permute(2, 1, 0)[None, :, ::2], draw(3, 2, 4, 5).transpose(1, 2)
    close(Conv2dFwdOp()(x, weight), reference.conv2d(x, weight))
    repeated = draw(1, 1, 1, 5).expand(2, 4, 6, 5)
    close(Conv2dFwdOp()(repeated, weight), reference.conv2d(repeated, weight))


def test_empty_batches_channels_and_extents(draw, close):
    weight, bias = draw(3, 2, 3), draw(3)
    assert Conv1dFwdOp()(draw(0, 2, 9), weight).shape == (0, 3, 7)
    close(Conv1dFwdOp()(draw(2, 0, 9), draw(3, 0, 3), bias), bias[:, None].expand(2, 3, 7).clone())
    close(Conv1dFwdOp()(draw(2, 0, 9), draw(3, 0, 3)), torch.zeros(2, 3, 7))
    padded = Conv1dFwdOp(padding=2)(draw(1, 2, 0), weight, bias)
    close(padded, bias[:, None].expand(1, 3, 2).clone())


@pytest.mark.parametrize(
    ("params", "x", "weight", "fault"),
    [
        ({"groups": 0}, (1, 4, 9), (4, 4, 3), "groups"),
        ({"groups": 3}, (1, 4, 9), (3, 1, 3), "C_in % groups == 0"),
        ({"groups": 2}, (1, 4, 9), (3, 2, 3), "C_out % groups == 0"),
        ({"groups": 2}, (1, 4, 9), (4, 4, 3), "C_in_g.*length 4, expected 2"),
        ({}, (1, 4, 9), (4, 4, 10), "L_out"),
        ({}, (1, 4, 9), (4, 4, 0), "conv.out needs kernel > 0"),
        ({}, (4, 9), (4, 4, 3), "expected 3 axes"),
        ({"padding": -1}, (1, 4, 9), (4, 4, 3), "p >= 0"),
        ({"stride": 0}, (1, 4, 9), (4, 4, 3), "s > 0"),
        ({"dilation": 0}, (1, 4, 9), (4, 4, 3), "d > 0"),
        ({"padding": "same", "stride": 2}, (1, 4, 9), (4, 4, 3), "padding != 'same' or s == 1"),
    ],
)
def test_calls_that_do_not_fit_are_refused(params, x, weight, fault):
    with pytest.raises(SignatureError, match=fault):
        Conv1dFwdOp(**params)(torch.ones(x), torch.ones(weight))


def test_the_roofline_is_of_a_contraction(draw):
    op = Conv2dFwdOp(groups=2, padding=1)
    op(draw(2, 4, 5, 6), draw(6, 2, 3, 3), draw(6))
    flops, traffic = op.eval_roofline()
    assert flops == 2 * 2 * 6 * 30 * 2 * 9 + 2 * 6 * 30
    assert traffic == 4 * (2 * 4 * 30 + 6 * 2 * 9 + 6 + 2 * 6 * 30)
    assert op.roof_key() == "tensor_core.tf32"
