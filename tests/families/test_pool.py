"""Pooling: accuracy against explicit windows, divisors, places, adaptive and chunked windows."""

from __future__ import annotations

import math

import pytest
import torch

from tileops import pool
from tileops.errors import SignatureError
from tileops.pool import reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INF, NAN = math.inf, math.nan
INPUTS = {1: (2, 3, 17), 2: (2, 3, 9, 12), 3: (2, 2, 5, 7, 6)}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True},
    {"kernel_size": 1, "stride": 4},
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", INPUTS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_averages_are_accurate(draw, close, dtype, axes, windows):
    op, expected = getattr(pool, f"AvgPool{axes}dFwdOp"), getattr(reference, f"avg_pool{axes}d")
    x = draw(*INPUTS[axes], dtype=dtype)
    for counts in (True, False):
        params = {**windows, "count_include_pad": counts}
        close(op(**params)(x), expected(x, **params))
        if axes > 1:
            params["divisor_override"] = -7
            close(op(**params)(x), expected(x, **params))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", INPUTS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_maxima_are_exact(draw, close, dtype, axes, windows):
    x = draw(*INPUTS[axes], dtype=dtype).mul(2).round().div(2)  # with ties
    for dilation in (1, 2):
        params = {**windows, "dilation": dilation}
        indices = getattr(reference, f"max_pool{axes}d_indices")(x, **params)
        if min(indices[0].shape) == 0:
            continue
        close(getattr(pool, f"MaxPool{axes}dFwdOp")(**params)(x), indices[0], 0)
        found = getattr(pool, f"MaxPool{axes}dIndicesFwdOp")(**params)(x)
        for one, other in zip(found, indices, strict=True):
            close(one, other, 0)


def test_one_value_for_each_axis(draw, close):
    x = draw(2, 3, 9, 12)
    params = {"kernel_size": (3, 2), "stride": [1, 2], "padding": (1, 0)}
    close(pool.AvgPool2dFwdOp(**params)(x), reference.avg_pool2d(x, **params))
    params["dilation"] = (2, 3)
    close(pool.MaxPool2dFwdOp(**params)(x), reference.max_pool2d(x, **params))
    with pytest.raises(SignatureError, match=r"params\.kernel_size"):
        pool.AvgPool2dFwdOp((3, 2, 1))


def test_a_window_wider_than_the_volume(draw, close):
    x = draw(1, 2, 1, 2, 4)
    for counts in (True, False):
        params = {"kernel_size": 3, "padding": 1, "count_include_pad": counts, "ceil_mode": True}
        close(pool.AvgPool3dFwdOp(**params)(x), reference.avg_pool3d(x, **params))


def test_the_overhang_of_ceil_mode_never_counts(close):
    x = torch.ones(1, 1, 5)
    close(pool.AvgPool1dFwdOp(2, ceil_mode=True)(x), torch.ones(1, 1, 3))
    padded = pool.AvgPool1dFwdOp(3, 3, 1, True)(x)
    close(padded, torch.tensor([[[2 / 3, 1.0]]]))


def test_half_sums_do_not_overflow(close):
    x = torch.full((1, 1, 64, 64), 60000.0, dtype=torch.float16)
    mean = torch.full((1, 1, 1, 1), 60000.0, dtype=torch.float16)
    close(pool.AvgPool2dFwdOp(64)(x), mean)
    close(pool.AdaptiveAvgPool2dFwdOp(1)(x), mean)
    close(pool.AvgPool3dFwdOp(8)(x.view(1, 1, 16, 16, 16)), mean.expand(1, 1, 2, 2, 2).clone())


def test_nan_wins_and_places_are_of_the_first_maximum_or_the_last_nan():
    x = torch.tensor([[[1.0, NAN, 3.0, NAN, 2.0, 2.0, 2.0]]])
    maxima, places = pool.MaxPool1dIndicesFwdOp(3, 1)(x)
    assert places.tolist() == [[[1, 3, 3, 3, 4]]]
    assert maxima[..., :4].isnan().all()
    assert pool.AvgPool1dFwdOp(2)(x).isnan().tolist() == [[[True, True, False]]]
    plane = torch.tensor([[[NAN, 1.0], [2.0, NAN]]])
    assert pool.AdaptiveMaxPool2dIndicesFwdOp(1)(plane)[1].tolist() == [[[3]]]
    infinite = torch.full((1, 1, 3), -INF)
    assert [part.item() for part in pool.MaxPool1dIndicesFwdOp(3)(infinite)] == [-INF, 0]


@pytest.mark.parametrize("op", [pool.MaxPool2dFwdOp, pool.AvgPool2dFwdOp])
@pytest.mark.parametrize(
    "params",
    [
        {"kernel_size": 0},
        {"kernel_size": 2, "stride": 0},
        {"kernel_size": 3, "padding": 2},
        {"kernel_size": 3, "padding": -1},
        {"kernel_size": (2, 2), "stride": (1, -1)},
    ],
    ids=str,
)
def test_windows_that_do_not_fit_are_refused(op, params):
    with pytest.raises(SignatureError, match="shape_rules|pool.out") as raised:
        op(**params)
    assert raised.value.phase == "construction"


def test_calls_that_do_not_fit_are_refused():
    with pytest.raises(SignatureError, match="H_in > 0 and H_out > 0"):
        pool.MaxPool2dFwdOp(2)(torch.ones(1, 1, 0, 4))
    with pytest.raises(SignatureError, match="W_in > 0 and W_out > 0"):
        pool.MaxPool2dFwdOp(3)(torch.ones(1, 1, 4, 2))
    with pytest.raises(SignatureError, match="expected 4 axes"):
        pool.AvgPool2dFwdOp(2)(torch.ones(1, 4, 4))
    with pytest.raises(SignatureError, match="divisor_override"):
        pool.AvgPool2dFwdOp(2, divisor_override=0)
    with pytest.raises(SignatureError, match="d > 0"):
        pool.MaxPool1dFwdOp(2, dilation=0)


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (pool.MaxPool1dFwdOp(2), (0, 3, 4)),
        (pool.AvgPool3dFwdOp(2), (2, 0, 4, 4, 4)),
        (pool.AdaptiveAvgPool2dFwdOp(2), (0, 3, 4, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_empty_batch_is_fine(op, shape):
    assert op(torch.empty(shape)).shape[:2] == shape[:2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 6, None, (7, 5), [None, 3], (9, None), (20, 25)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 9, 12), (3, 9, 12)])
def test_adaptive_windows_cover_the_plane(draw, close, dtype, size, shape):
    x = draw(*shape, dtype=dtype)
    close(pool.AdaptiveAvgPool2dFwdOp(size)(x), reference.adaptive_avg_pool2d(x, output_size=size))
    maxima, places = reference.adaptive_max_pool2d_indices(x, output_size=size)
    close(pool.AdaptiveMaxPool2dFwdOp(size)(x), maxima, 0)
    found = pool.AdaptiveMaxPool2dIndicesFwdOp(size)(x)
    close(found[0], maxima, 0)
    close(found[1], places, 0)


def test_adaptive_calls_that_do_not_fit_are_refused():
    with pytest.raises(SignatureError, match=r"len\(B\) <= 1"):
        pool.AdaptiveAvgPool2dFwdOp(1)(torch.ones(1, 2, 3, 4, 4))
    with pytest.raises(SignatureError, match="H_out > 0"):
        pool.AdaptiveAvgPool2dFwdOp((0, 1))(torch.ones(1, 3, 4, 4))
    with pytest.raises(SignatureError, match="W_in > 0"):
        pool.AdaptiveMaxPool2dFwdOp(1)(torch.ones(1, 3, 4, 0))
    with pytest.raises(SignatureError, match="output_size|per_axis"):
        pool.AdaptiveMaxPool2dFwdOp([1, 2, 3])(torch.ones(1, 3, 4, 4))


@pytest.mark.parametrize(
    ("shape", "size", "taps"),
    [((2, 3, 9, 12), (3, 4), 9 * 12), ((3, 9, 12), (2, 5), 10 * 16), ((1, 1, 4, 4), 8, 64)],
)
def test_adaptive_windows_are_counted_by_their_overlap(shape, size, taps):
    op = pool.AdaptiveMaxPool2dFwdOp(size)
    outputs = op(torch.ones(shape)).numel()
    planes = math.prod(shape[:-2])
    assert op.eval_roofline() == (planes * taps, 4 * (math.prod(shape) + outputs))
    average = pool.AdaptiveAvgPool2dFwdOp(size)
    average(torch.ones(shape))
    assert average.eval_roofline()[0] == planes * taps + outputs


def test_views(draw, close):
    base = draw(4, 9, 12, 6)
    for x in (base.permute(0, 3, 1, 2), base[:, 1:, ::2], base[:1].expand(3, 9, 12, 6)):
        close(pool.MaxPool2dFwdOp(2)(x), reference.max_pool2d(x, kernel_size=2), 0)
        close(pool.AvgPool2dFwdOp(2)(x), reference.avg_pool2d(x, kernel_size=2))
        close(pool.AdaptiveAvgPool2dFwdOp(2)(x), reference.adaptive_avg_pool2d(x, output_size=2))


def packed(lengths, chunk):
    """Offsets and chunk indices of packed sequences."""
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    rows = [(i, j) for i, n in enumerate(lengths) for j in range(-(-n // chunk))]
    return offsets, torch.tensor(rows, dtype=torch.int32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accum", [*DTYPES, torch.float64])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 100])
def test_chunks_are_averaged(draw, close, dtype, accum, length):
    x = draw(2, length, 3, 4, dtype=dtype)
    params = {"chunk_size": 32, "accum_dtype": accum}
    close(pool.MeanPoolingFwdOp(**params)(x), reference.mean_pooling(x, **params))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [[100], [5, 64, 1], [33, 0, 31, 70], [200]])
def test_chunks_restart_at_every_boundary(draw, close, dtype, lengths):
    x = draw(2, sum(lengths), 3, 4, dtype=dtype)
    metadata = packed(lengths, 64)
    params = {"chunk_size": 64, "accum_dtype": torch.float32}
    close(
        pool.MeanPoolingFwdOp(**params)(x, *metadata),
        reference.mean_pooling(x, *metadata, **params),
    )
    view = x.transpose(1, 2).contiguous().transpose(1, 2)
    close(
        pool.MeanPoolingFwdOp(**params)(view, *metadata),
        pool.MeanPoolingFwdOp(**params)(x, *metadata),
    )


def test_a_chunk_of_half_numbers_does_not_overflow(close):
    x = torch.full((1, 96, 1, 1), 60000.0, dtype=torch.float16)
    expected = torch.full((1, 2, 1, 1), 60000.0, dtype=torch.float16)
    close(pool.MeanPoolingFwdOp(64, torch.float32)(x), expected)
    close(pool.MeanPoolingFwdOp(64, torch.float32)(x, *packed([96], 64)), expected)


def test_nan_outside_a_chunk_stays_there():
    x = torch.ones(1, 40, 1, 1)
    x[:, 7] = NAN
    y = pool.MeanPoolingFwdOp(32, torch.float32)(x, *packed([5, 35], 32))
    assert y.isnan().flatten().tolist() == [False, True, False]


def test_chunks_that_do_not_fit_are_refused(draw):
    for chunk in (0, 48, -32):
        with pytest.raises(SignatureError, match="chunk_size > 0 and chunk_size % 32 == 0"):
            pool.MeanPoolingFwdOp(chunk, torch.float32)
    with pytest.raises(SignatureError, match=r"category\(accum_dtype\)"):
        pool.MeanPoolingFwdOp(32, torch.int32)
    op = pool.MeanPoolingFwdOp(32, torch.float32)
    with pytest.raises(SignatureError, match="D % 128 == 0"):
        op(draw(1, 4, 1, 130))
    assert op(draw(1, 4, 1, 256)).shape == (1, 1, 1, 256)
    with pytest.raises(SignatureError, match="indices"):
        op(draw(1, 4, 1, 2), packed([4], 32)[0])
