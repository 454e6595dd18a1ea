"""Products of float8 codes and with 4-bit weights on the device: scales, tails, biases, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import GemmFp8FwdOp, GemmW4A16FwdOp
from tileops.gemm.kernels import (
    PACKED_CUTS,
    TILES_FP8,
    TILES_FP8_BY_ROW,
    GemmFp8PipelinedKernel,
    GemmW4A16FewRowsKernel,
    GemmW4A16SplitKernel,
)

CODES = torch.float8_e4m3fn
# One rounding to 16 bits of a sum of products of order one, each step exact to some 14 bits.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-9, "atol": 4e-3},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 4e-3},
}
SCALES = [("tensor", "tensor"), ("row_block", "tile"), ("row_block", "row_block")]


def scales_of(kind: str, rows: int, k: int) -> tuple[int, int]:
    runs = -(-k // 128)
    return {"tensor": (1, 1), "row_block": (rows, runs), "tile": (-(-rows // 128), runs)}[kind]


def spread(scale, kind: str, rows: int, k: int):
    """A scale for each code, in float64."""
    if kind == "tensor":
        return scale.double()
    if kind == "tile":
        scale = scale.repeat_interleave(128, 0)[:rows]
    return scale.repeat_interleave(128, 1)[:, :k].double()


def operands(draw, m, n, k, scales_a, scales_b, out_dtype=None):
    a, b = (draw(rows, k, scale=16).to(CODES) for rows in (m, n))
    scale_a = draw(*scales_of(scales_a, m, k)).abs() * k**-0.5 / 16
    scale_b = draw(*scales_of(scales_b, n, k)).abs() / 16
    return a, b, scale_a, scale_b, None if out_dtype is None else draw(n, dtype=out_dtype)


def check(product, kinds, a, b, scale_a, scale_b, bias, out_dtype=torch.bfloat16) -> None:
    d = product(a, b, scale_a, scale_b, bias)
    left = a.double() * spread(scale_a, kinds[0], *a.shape)
    right = b.double() * spread(scale_b, kinds[1], *b.shape)
    wide = left @ right.T + (0 if bias is None else bias.double())
    assert d.dtype == out_dtype
    torch.testing.assert_close(d.double(), wide, **TOLERANCE[out_dtype])


@pytest.mark.parametrize("kinds", SCALES, ids=str)
@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
def test_scaled_products_are_accurate(draw, serving, kinds, out_dtype, biased):
    op = GemmFp8FwdOp(out_dtype)
    for m, n, k in [(1, 8, 16), (5, 2112, 7168), (129, 264, 400), (1000, 1336, 2048)]:
        inputs = operands(draw, m, n, k, *kinds, out_dtype if biased else None)
        check(op, kinds, *inputs, out_dtype=out_dtype)
    assert serving(op, "gemm_fp8") == {"GemmFp8PipelinedKernel"}


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(
    ("kinds", "tile"),
    [
        *((kinds, tile) for kinds in SCALES[:2] for tile in TILES_FP8),
        *((SCALES[2], tile) for tile in TILES_FP8_BY_ROW),
    ],
    ids=str,
)
def test_every_tile_is_accurate_again_and_again(draw, kinds, tile, cluster):
    kernel = GemmFp8PipelinedKernel(*kinds, False, torch.bfloat16, tile, 132)
    kernel.config = {"group": 8, "cluster": cluster}
    inputs = operands(draw, 1032, 2056, 2064, *kinds)
    check(kernel, kinds, *inputs)
    first = kernel(*inputs)
    for _ in range(30):
        assert torch.equal(kernel(*inputs), first)  # an error that moves would be a race


def test_codes_that_are_no_numbers_stay_in_their_row(draw):
    a, b, scale_a, scale_b, _ = operands(draw, 130, 256, 512, "row_block", "tile")
    a.view(torch.uint8)[7, 100] = 0x7F
    result = GemmFp8FwdOp()(a, b, scale_a, scale_b)
    assert result[7].isnan().all()
    assert result[[row for row in range(130) if row != 7]].isfinite().all()


@pytest.mark.parametrize(("n", "k"), [(12, 16), (16, 8)])
def test_odd_pitches_of_codes_are_left_to_torch(draw, serving, n, k):
    op = GemmFp8FwdOp()
    check(op, ("tensor", "tensor"), *operands(draw, 9, n, k, "tensor", "tensor"))
    assert serving(op, "gemm_fp8") == {"GemmFp8PortableKernel"}


def packed(draw, m, n, k, group):
    generator = torch.Generator("cuda").manual_seed(3)
    shared = {"generator": generator, "device": "cuda", "dtype": torch.uint8}
    codes = torch.randint(256, (n, k // 2), **shared)
    zeros = torch.randint(16, (n, k // group), **shared)
    scales = (draw(n, k // group).abs() * k**-0.5 / 4).half()
    return draw(m, k, dtype=torch.float16), codes, scales, zeros


def check_packed(product, x, codes, scales, zeros) -> None:
    plain = GemmW4A16FwdOp.unrepack(codes)
    q = torch.stack((plain & 15, plain >> 4), -1).flatten(1).double()
    group = q.shape[1] // scales.shape[1]
    weight = (q - zeros.double().repeat_interleave(group, 1)) * scales.double().repeat_interleave(
        group, 1
    )
    wide = x.double() @ weight.T
    result = product(x, codes, scales, zeros)
    torch.testing.assert_close(result.double(), wide, **TOLERANCE[x.dtype])


@pytest.mark.parametrize("group", [128, 256])
@pytest.mark.parametrize("m", [1, 4, 5, 8, 9, 16, 31, 64, 200])
def test_rows_meet_packed_weights(draw, serving, m, group):
    op = GemmW4A16FwdOp(group)
    for n, k in [(64, 256), (1024, 8192), (8192, 1280), (77, 14336)]:
        check_packed(op, *packed(draw, m, n, k, group))
    served = "GemmW4A16FewRowsKernel" if m <= 8 else "GemmW4A16SplitKernel"
    assert serving(op, "gemm_w4a16") == {served}


@pytest.mark.parametrize("warps", [4, 8, 16])
def test_every_cut_of_a_few_rows_product_is_accurate(draw, warps):
    kernel = GemmW4A16FewRowsKernel(128)
    kernel.config = {"warps": warps}
    check_packed(kernel, *packed(draw, 9, 333, 2688, 128))


@pytest.mark.parametrize("columns", PACKED_CUTS)
def test_every_cut_of_a_packed_weight_is_accurate_again_and_again(draw, columns):
    for config in (None, *GemmW4A16SplitKernel(128, columns, 132).autotune_configs):
        kernel = GemmW4A16SplitKernel(128, columns, 132)
        if config is not None:
            kernel.config = config
        inputs = packed(draw, columns + 1, 2333, 2688, 128)
        check_packed(kernel, *inputs)
        first = kernel(*inputs)
        for _ in range(30):
            assert torch.equal(kernel(*inputs), first)  # an error that moves would be a race


@pytest.mark.parametrize(("m", "group"), [(1025, 128), (4, 64)])
def test_other_packed_products_are_left_to_torch(draw, serving, m, group):
    op = GemmW4A16FwdOp(group)
    x, codes, scales, zeros = packed(draw, m, 96, 512, group)
    op(x, codes, scales, zeros)
    assert serving(op, "gemm_w4a16") == {"GemmW4A16PortableKernel"}
