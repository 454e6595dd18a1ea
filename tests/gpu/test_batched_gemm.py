"""Batched products on the device: layouts, tiles, tails, views, codes, gradients, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import BmmBwdOp, BmmFP8FwdOp, BmmFwdOp, reference
from tileops.gemm.kernels import TILES, TILES_FP8, BmmFP8PipelinedKernel, BmmPipelinedKernel

HALVES = [torch.float16, torch.bfloat16]
SIZES = [
    (1, 8, 8, 8),
    (16, 128, 128, 128),
    (5, 1, 4096, 128),
    (7, 136, 264, 200),
    (3, 1000, 520, 96),
]
# One rounding to the dtype of a float32 sum of products of order one.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-10, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 2e-3},
}


def operands(draw, batch, m, n, k, dtype):
    a = draw(batch, m, k, dtype=dtype, scale=k**-0.5 * 4)
    return a, draw(batch, k, n, dtype=dtype)


def check(d, a, b) -> None:
    """Compare with float64 arithmetic on the same inputs."""
    assert d.dtype == a.dtype
    assert d.is_contiguous()
    torch.testing.assert_close(d.double(), a.double() @ b.double(), **TOLERANCE[a.dtype])


def stored(tensor, transposed):
    """The same matrices, each stored transposed where that is asked."""
    return tensor.mT.contiguous().mT if transposed else tensor


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_products_are_accurate_however_factors_are_stored(draw, serving, trans_a, trans_b):
    op, dtype = BmmFwdOp(), HALVES[trans_a == trans_b]
    for batch, m, n, k in SIZES:
        a, b = operands(draw, batch, m, n, k, dtype)
        check(op(stored(a, trans_a), stored(b, trans_b)), a, b)
    assert serving(op, "bmm") == {"BmmPipelinedKernel"}


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_tile_is_accurate(draw, tile, cluster):
    kernel = BmmPipelinedKernel(False, False, torch.bfloat16, tile, 132)
    kernel.config = {"group": 8, "cluster": cluster}
    for size in [(9, 8, 8, 8), (33, 300, 520, 264), (4, 1000, 1336, 1096)]:
        a, b = operands(draw, *size, torch.bfloat16)
        check(kernel(a, b), a, b)


def test_products_are_the_same_again_and_again(draw):
    op = BmmFwdOp()
    a, b = operands(draw, 64, 128, 2048, 128, torch.bfloat16)
    first = op(a, b)
    check(first, a, b)
    for _ in range(50):
        assert torch.equal(op(a, b), first)  # an error that moves would be a race


def test_views_are_read_as_they_are(draw):
    op = BmmFwdOp()
    heads = draw(512, 6, 128, dtype=torch.float16, scale=0.1).transpose(0, 1)
    check(op(heads, heads.mT), heads, heads.mT)
    base = draw(9, 300, 264, dtype=torch.float16, scale=0.1)
    a, b = base[::2, :136, :200], base[1:6, 3:203, 8:72]
    check(op(a, b), a, b)


def test_what_lies_beside_the_operands_does_not_matter(draw):
    base = torch.full((5, 200, 200), torch.nan, dtype=torch.bfloat16, device="cuda")
    base[1:4] = draw(3, 200, 200, dtype=torch.bfloat16)
    check(BmmFwdOp()(base[1:3], base[2:4]), base[1:3], base[2:4])


def test_odd_pitches_are_left_to_torch(draw, serving):
    op = BmmFwdOp()
    a, b = operands(draw, 3, 33, 65, 129, torch.bfloat16)
    check(op(a, b), a, b)
    assert serving(op, "bmm") == {"BmmPortableKernel"}


def test_gradients_read_factors_as_stored(draw, serving):
    op = BmmBwdOp()
    a, b = operands(draw, 4, 136, 264, 200, torch.bfloat16)
    grad = draw(4, 136, 264, dtype=torch.bfloat16, scale=0.1)
    grad_a, grad_b = op(grad, a, b)
    check(grad_a, grad, b.mT)
    check(grad_b, a.mT, grad)
    assert serving(op, "bmm") == {"BmmPipelinedKernel"}


def codes(draw, *shape):
    return draw(*shape, dtype=torch.float32, scale=20.0).to(torch.float8_e4m3fn)


@pytest.mark.parametrize("out_dtype", HALVES)
@pytest.mark.parametrize("trans_b", [False, True])
def test_products_of_codes_are_accurate(draw, serving, trans_b, out_dtype):
    op = BmmFP8FwdOp(out_dtype, trans_b)
    scales = draw(2, dtype=torch.float32).abs() / 100
    sizes = [(1, 8, 8, 16), (16, 128, 128, 2048), (7, 136, 264, 208), (3, 1, 520, 96)]
    for batch, m, n, k in sizes:
        a, b = codes(draw, batch, m, k), codes(draw, batch, *((n, k) if trans_b else (k, n)))
        found = op(a, b, *scales)
        exact = reference.bmm_fp8(a, b, *scales, out_dtype=torch.float64, trans_b=trans_b)
        tolerance = {**TOLERANCE[out_dtype], "atol": 1e-2}
        torch.testing.assert_close(found.double(), exact, **tolerance)
    assert serving(op, "bmm_fp8") == {"BmmFP8PipelinedKernel"}


@pytest.mark.parametrize("tile", TILES_FP8, ids=str)
def test_every_tile_of_codes_is_accurate(draw, tile):
    kernel = BmmFP8PipelinedKernel(True, torch.bfloat16, tile, 132)
    scales = draw(2, dtype=torch.float32).abs() / 100
    for batch, m, n, k in [(9, 8, 8, 16), (33, 300, 520, 272)]:
        a, b = codes(draw, batch, m, k), codes(draw, batch, n, k)
        exact = reference.bmm_fp8(a, b, *scales, out_dtype=torch.float64, trans_b=True)
        torch.testing.assert_close(kernel(a, b, *scales).double(), exact, rtol=2.0**-7, atol=1e-2)


def test_sizes_of_a_class_share_a_program(draw, programs):
    op = BmmFwdOp()
    a, b = operands(draw, 40, 300, 256, 128, torch.bfloat16)
    for batch in range(1, 41):
        for m in range(1, 300, 13):
            op(a[:batch, :m], b[:batch])
    check(op(a, b), a, b)
    assert len(programs) == len(op.built_entries("bmm")) <= len(TILES)
