"""Products of groups of rows on the device: empty, short and long groups, tails, other layouts."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import GroupedGemmFwdOp
from tileops.gemm.kernels import GROUP_TILES, GroupedGemmPipelinedKernel
from tileops.gemm.reference import grouped_gemm

HALVES = [torch.float16, torch.bfloat16]
# One rounding to the dtype of a float32 sum of products of order one.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-10, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 2e-3},
}
SIZES = [
    [0, 130, 1, 0, 0, 65, 128],
    [5],
    [0, 0, 0, 300],
    [1] * 64,
    [1000, 0, 24, 1024, 3],
]


def operands(draw, sizes, n, k, dtype):
    counts = torch.tensor(sizes, dtype=torch.int32, device="cuda")
    starts = (counts.cumsum(0) - counts).int()
    a = draw(sum(sizes), k, dtype=dtype, scale=k**-0.5 * 4)
    return a, draw(len(sizes), n, k, dtype=dtype), counts, starts


def check(product, *inputs) -> None:
    out = product(*inputs)
    wide = grouped_gemm(inputs[0].double(), inputs[1].double(), *inputs[2:])
    assert out.dtype == inputs[0].dtype
    torch.testing.assert_close(out.double(), wide, **TOLERANCE[out.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("n", "k"), [(8, 8), (264, 200), (2048, 1024)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_groups_are_accurate(draw, serving, sizes, n, k, dtype):
    op = GroupedGemmFwdOp()
    check(op, *operands(draw, sizes, n, k, dtype))
    assert serving(op, "grouped_gemm") == {"GroupedGemmPipelinedKernel"}


@pytest.mark.parametrize("tile", GROUP_TILES, ids=str)
def test_every_tile_is_accurate_again_and_again(draw, tile):
    kernel = GroupedGemmPipelinedKernel(torch.bfloat16, tile, 132)
    inputs = operands(draw, [700, 0, 1, 64, 2000, 129], 1336, 1096, torch.bfloat16)
    check(kernel, *inputs)
    first = kernel(*inputs)
    for _ in range(20):
        assert torch.equal(kernel(*inputs), first)  # an error that moves would be a race


def test_what_lies_beside_a_group_does_not_matter(draw):
    a, b, counts, starts = operands(draw, [3, 70, 9], 72, 200, torch.bfloat16)
    a[3:73], b[1] = torch.nan, torch.nan
    out = GroupedGemmFwdOp()(a, b, counts, starts)
    assert out[3:73].isnan().all()
    assert out[:3].isfinite().all()
    assert out[73:].isfinite().all()
