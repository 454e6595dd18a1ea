"""Matrix products on the device: layouts, tiles, tails, views, what is left to torch, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import GemmFwdOp
from tileops.gemm.kernels import (
    TILES,
    TILES_OF_WEIGHTS,
    GemmPipelinedKernel,
    GemmSplitKernel,
    GemvKernel,
)

HALVES = [torch.float16, torch.bfloat16]
LAYOUTS = [(False, True), (False, False), (True, True), (True, False)]
# One rounding to the dtype of a float32 sum of products of order one.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-10, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 2e-3},
}


def operands(draw, m, n, k, trans_a, trans_b, dtype):
    a = draw(*((k, m) if trans_a else (m, k)), dtype=dtype, scale=k**-0.5 * 4)
    return a, draw(*((n, k) if trans_b else (k, n)), dtype=dtype)


def check(product, a, b, trans_a=False, trans_b=True) -> None:
    """Run and compare with float64 arithmetic on the same inputs."""
    d = product(a, b)
    wide = (a.mT if trans_a else a).double() @ (b.mT if trans_b else b).double()
    assert d.dtype == a.dtype
    assert d.is_contiguous()
    torch.testing.assert_close(d.double(), wide, **TOLERANCE[a.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("trans_a", "trans_b"), LAYOUTS)
def test_products_of_every_class_are_accurate(draw, serving, trans_a, trans_b, dtype):
    op = GemmFwdOp(trans_a, trans_b)
    for m, n, k in [(72, 8, 8), (136, 264, 200), (1024, 1024, 1000), (2056, 2112, 504)]:
        check(op, *operands(draw, m, n, k, trans_a, trans_b, dtype), trans_a, trans_b)
    assert serving(op, "gemm") == {"GemmPipelinedKernel"}


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize(("trans_a", "trans_b"), LAYOUTS)
def test_every_tile_is_accurate(draw, trans_a, trans_b, tile, cluster):
    kernel = GemmPipelinedKernel(trans_a, trans_b, torch.bfloat16, tile, 132)
    kernel.config = {"group": 8, "cluster": cluster}
    for m, n, k in [(8, 8, 8), (1000, 1336, 1096), (4104, 3080, 264)]:
        check(kernel, *operands(draw, m, n, k, trans_a, trans_b, torch.bfloat16), trans_a, trans_b)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("tile", sorted({*TILES_OF_WEIGHTS} - {*TILES}), ids=str)
def test_every_tile_of_weights_is_accurate(draw, tile, dtype):
    kernel = GemmPipelinedKernel(False, True, dtype, tile, 132)
    for m, n, k in [(8, 8, 8), (64, 4096, 4096), (1000, 1336, 1096), (4104, 3080, 264)]:
        check(kernel, *operands(draw, m, n, k, False, True, dtype))


@pytest.mark.parametrize("m", [33, 64, 65, 127, 129, 1001])
def test_any_number_of_rows(draw, serving, m):
    op = GemmFwdOp()
    check(op, *operands(draw, m, 4096, 7168, False, True, torch.bfloat16))
    assert serving(op, "gemm") == {"GemmPipelinedKernel"}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (2112, 7168), (7168, 2112), (61, 1000), (1, 8)])
@pytest.mark.parametrize("m", [1, 2])
def test_a_handful_of_rows(draw, serving, m, n, k, dtype):
    op = GemmFwdOp()
    check(op, *operands(draw, m, n, k, False, True, dtype))
    assert serving(op, "gemm") == {"GemvKernel"}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *((m, n, k) for n, k in [(4096, 4096), (7168, 2112), (16384, 520)] for m in (3, 8, 15, 32)),
        *((m, n, k) for n, k in [(2112, 7168), (61, 1000)] for m in (4, 5, 16, 63, 128)),
        (3, 1, 8),
    ],
)
def test_few_rows(draw, serving, m, n, k, dtype):
    op = GemmFwdOp()
    a, b = operands(draw, m, n, k, False, True, dtype)
    check(op, a, b)
    first = op(a, b)
    for _ in range(20):
        assert torch.equal(op(a, b), first)  # an error that moves would be a race
    assert serving(op, "gemm") == {"GemmSplitKernel"}


@pytest.mark.parametrize("splits", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rows", [8, 16, 32, 64, 128])
def test_every_split_is_accurate(draw, rows, splits):
    kernel = GemmSplitKernel(torch.bfloat16, rows, splits)
    for m, n, k in [(rows, 2112, 7168), (rows + 1, 333, 1032)]:
        check(kernel, *operands(draw, m, n, k, False, True, torch.bfloat16))


@pytest.mark.parametrize("config", GemvKernel(torch.bfloat16, 1, True).autotune_configs, ids=str)
@pytest.mark.parametrize("rows", [1, 2])
def test_every_cut_of_a_weight_is_accurate(draw, rows, config):
    kernel = GemvKernel(torch.bfloat16, rows, True)
    kernel.config = config
    for m, n, k in [(1, 4096, 4096), (rows, 333, 7176)]:
        check(kernel, *operands(draw, m, n, k, False, True, torch.bfloat16))


def test_large_products_are_accurate_again_and_again(draw):
    op = GemmFwdOp()
    a, b = operands(draw, 4096, 4096, 7168, False, True, torch.bfloat16)
    check(op, a, b)
    first = op(a, b)
    for _ in range(50):
        assert torch.equal(op(a, b), first)  # an error that moves would be a race


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("m", "n", "k"), [(33, 65, 129), (65, 100, 64), (16, 64, 100)])
def test_odd_pitches_are_left_to_torch(draw, serving, m, n, k, dtype):
    op = GemmFwdOp()
    check(op, *operands(draw, m, n, k, False, True, dtype))
    assert serving(op, "gemm") == {"GemmPortableKernel"}


def test_views_are_read_as_they_are(draw):
    op = GemmFwdOp()
    base = draw(300, 1024, dtype=torch.float16, scale=0.1)
    check(op, base[::2, :512], draw(1024, 64, dtype=torch.float16)[::2].T)
    check(op, base.flatten()[1 : 1 + 128 * 256].view(128, 256), base[:64, 3:259])


def test_what_lies_beside_the_operands_does_not_matter(draw):
    base = torch.full((600, 200), torch.nan, dtype=torch.bfloat16, device="cuda")
    base[100:300] = draw(200, 200, dtype=torch.bfloat16)
    a, b = base[100:236], base[236:300]
    check(GemmFwdOp(), a, b)


def test_empty_operands(draw, programs):
    op = GemmFwdOp()
    half = {"dtype": torch.float16}
    assert op(draw(0, 64, **half), draw(8, 64, **half)).shape == (0, 8)
    assert (op(draw(4, 0, **half), draw(8, 0, **half)) == 0).all()
    assert not programs


def test_row_counts_of_a_class_share_a_program(draw, programs):
    op = GemmFwdOp()
    a, b = operands(draw, 500, 1024, 512, False, True, torch.bfloat16)
    for m in range(1, 501):
        op(a[:m], b)
    check(op, a, b)
    assert len(programs) == len(op.built_entries("gemm")) <= 10  # a few of each algorithm


def test_tuning_changes_no_result(draw, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    op = GemmFwdOp()
    a, b = operands(draw, 2048, 2048, 1024, False, True, torch.bfloat16)
    op.request_tune()
    check(op, a, b)
    (kernel,) = op.iter_kernels()
    assert kernel.config in kernel.autotune_configs
    check(op, a, b)
