"""Codes and scales: round trips, zeros, outliers, partial blocks, what products make of them."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import GemmFp8FwdOp, GemmW4A16FwdOp
from tileops.gemm.kernels.packing import unpack, unrepack
from tileops.quantization import (
    FP8QuantFwdOp,
    FP8QuantPerBlockFwdOp,
    INT4QuantPerGroupFwdOp,
    INT8DequantPerBlockFwdOp,
    INT8DequantPerChannelFwdOp,
    INT8DequantPerTensorFwdOp,
    INT8QuantPerBlockFwdOp,
    INT8QuantPerChannelFwdOp,
    INT8QuantPerTensorFwdOp,
    SmoothQuantFwdOp,
    reference,
)

FLOATS = [torch.float16, torch.bfloat16, torch.float32]

INT8 = [
    (INT8QuantPerTensorFwdOp, INT8DequantPerTensorFwdOp),
    (INT8QuantPerChannelFwdOp, INT8DequantPerChannelFwdOp),
    (INT8QuantPerBlockFwdOp, INT8DequantPerBlockFwdOp),
]


@pytest.mark.parametrize(("quantise", "restore"), INT8)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 127), (2, 128), (5, 300)])
def test_int8_round_trips_to_half_a_step(draw, quantise, restore, dtype, shape):
    x = draw(*shape, dtype=dtype)
    q, scale = quantise()(x)
    back = restore(torch.float32)(q, scale)
    assert (back - x.float()).abs().max() <= scale.max() * 0.501
    assert q.abs().max() == 127
    for out_dtype in FLOATS:
        narrow = restore(out_dtype)(q, scale)
        assert torch.equal(narrow, back.to(out_dtype))


@pytest.mark.parametrize(("quantise", "_"), INT8)
def test_int8_of_zeros_and_outliers(quantise, _):
    x = torch.zeros(2, 256)
    x[1, 200], x[1, 3] = -1e4, 1.0
    q, scale = quantise()(x)
    assert q[1, 200] == -127
    assert q.int().min() == -127
    assert not q[0].any()
    if scale.numel() > 1:
        assert scale[0].eq(1).all()


def test_int8_rounds_half_to_even():
    q, _ = INT8QuantPerTensorFwdOp()(torch.tensor([[127.0, 0.5, 1.5, -0.5, -2.5]]))
    assert q.tolist() == [[127, 0, 2, 0, -2]]


def test_smoothing_divides_columns(draw):
    x, smooth = draw(4, 33), draw(33).abs() + 0.5
    q, scale = SmoothQuantFwdOp()(x, smooth)
    half_a_step = scale[:, None] * smooth * 0.501
    assert ((q.float() * scale[:, None] * smooth - x).abs() <= half_a_step).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_fp8_rows(draw, dtype):
    x = draw(2, 3, 4, 64, dtype=dtype)
    x[0, 0, 0] = 0
    x[0, 1, 1, 5] = 300
    scale, q = FP8QuantFwdOp()(x)
    wanted_scale, wanted = reference.fp8_quant(x)
    assert torch.equal(scale, wanted_scale)
    assert torch.equal(q.view(torch.uint8), wanted.view(torch.uint8))
    assert scale[0, 0, 0] == torch.tensor(1e-4) / 448
    back = q.float() * scale[..., None]
    cosine = torch.nn.functional.cosine_similarity(back.flatten(), x.float().flatten(), dim=0)
    assert cosine > 0.99


def test_numbers_that_are_none_stay_in_their_row(draw):
    x = draw(1, 3, 1, 8)
    x[0, 1, 0, 2] = torch.nan
    scale, q = FP8QuantFwdOp()(x)
    assert scale[0, 1].isnan().all()
    assert scale[0, [0, 2]].isfinite().all()
    assert q[0, [0, 2]].float().isfinite().all()


@pytest.mark.parametrize("shape", [(1, 1), (128, 128), (130, 300), (7, 129)])
def test_fp8_tiles(draw, shape):
    w = draw(*shape)
    w[:, -1] = 0
    q, scale = FP8QuantPerBlockFwdOp()(w)
    wanted, wanted_scale = reference.fp8_quant_per_block(w)
    assert torch.equal(scale, wanted_scale)
    assert torch.equal(q.view(torch.uint8), wanted.view(torch.uint8))


def test_fp8_codes_serve_the_product(draw):
    x, w = draw(5, 384), draw(140, 384)
    of_x, a = FP8QuantFwdOp()(x.view(1, 5, 3, 128))
    b, of_w = FP8QuantPerBlockFwdOp()(w)
    product = GemmFp8FwdOp()(a.view(5, 384), b, of_x[0], of_w).float()
    assert torch.cosine_similarity(product.flatten(), (x @ w.T).flatten(), dim=0) > 0.99


@pytest.mark.parametrize("group_size", [32, 128, 384])
def test_int4_codes_serve_the_product(draw, close, group_size):
    w, x = draw(6, 384, dtype=torch.float16), draw(3, 384, dtype=torch.float16, scale=0.05)
    packed, scale, zero = INT4QuantPerGroupFwdOp(group_size)(w)
    codes = unpack(unrepack(packed)).float()
    spread = [part.float().repeat_interleave(group_size, 1) for part in (zero, scale)]
    back = (codes - spread[0]) * spread[1]
    assert ((back - w.float()).abs() <= spread[1] * 1.01).all()
    assert (back - w.float()).abs().mean() <= scale.float().mean() * 0.3
    close(GemmW4A16FwdOp(group_size)(x, packed, scale, zero), (x.float() @ back.T).half(), 2e-2)


def test_int4_ranges_hold_zero():
    w = torch.zeros(3, 128, dtype=torch.float16)
    w[0] = 3.0
    w[1] = -3.0
    packed, scale, zero = INT4QuantPerGroupFwdOp()(w)
    codes = unpack(packed)
    assert scale.flatten().tolist() == pytest.approx([0.2, 0.2, 1.0], abs=1e-3)
    assert zero.flatten().tolist() == [0, 15, 0]
    assert [set(row.tolist()) for row in codes] == [{15}, {0}, {0}]


def test_int4_of_tiny_numbers_has_a_normal_scale():
    w = torch.full((1, 128), 6e-8, dtype=torch.float16)
    _, scale, _ = INT4QuantPerGroupFwdOp()(w)
    assert scale.item() == torch.finfo(torch.float16).smallest_normal


def test_views(draw):
    x = draw(300, 40).T[::2, 7:]
    for op in (INT8QuantPerTensorFwdOp(), INT8QuantPerChannelFwdOp(), INT8QuantPerBlockFwdOp()):
        for view, plain in zip(op(x), op(x.contiguous()), strict=True):
            assert torch.equal(view, plain)
            assert view.is_contiguous()


def test_row_counts_do_not_make_entries(draw):
    ops = [INT8QuantPerTensorFwdOp(), INT8QuantPerChannelFwdOp(), INT8QuantPerBlockFwdOp()]
    for op in ops:
        for rows in range(1, 5):
            op(draw(rows, 8))
        assert len(op.built_entries("int8_quant")) == 1
