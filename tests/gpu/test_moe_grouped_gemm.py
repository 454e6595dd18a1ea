"""Products of experts' rows on the device: all kinds of metadata, gates, float32 results."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm.kernels import GROUP_TILES
from tileops.moe import MoEGroupedGemmFwdOp
from tileops.moe.kernels import MoEGroupedGemmPipelinedKernel
from tileops.moe.reference import moe_grouped_gemm, moe_grouped_gemm_canonical
from tileops.moe.types.layouts import ContiguousLayoutSpec, MaskedLayoutSpec

LAYOUTS = [
    (ContiguousLayoutSpec.tight_physical_psum(), [0, 700, 700, 1024]),
    (ContiguousLayoutSpec.aligned_physical_psum(128), [3, 128, 513, 1000]),
    (ContiguousLayoutSpec.tight_per_row(), [0] * 600 + [2] * 399 + [4] * 25),
]


MASKED = MaskedLayoutSpec(300), [300, 0, 1, 130]
KINDS = [
    (*LAYOUTS[0], "silu_and_mul", None),
    (*LAYOUTS[1], "gelu_and_mul", None),
    (*LAYOUTS[2], "silu_and_mul", torch.float32),
    (*LAYOUTS[0], None, torch.float32),
    (*MASKED, None, None),
    (*MASKED, "silu_and_mul", None),
    (MaskedLayoutSpec(9), [0, 9, 0, 3], "gelu_and_mul", torch.float32),
]


@pytest.mark.parametrize(("layout", "metadata", "activation", "out_dtype"), KINDS)
def test_every_kind_of_product_is_accurate(draw, serving, layout, metadata, activation, out_dtype):
    is_masked = isinstance(layout, MaskedLayoutSpec)
    a = draw(*((4, layout.max_m) if is_masked else (1024,)), 1096, dtype=torch.bfloat16, scale=0.1)
    b = draw(4, 528, 1096, dtype=torch.bfloat16)
    places = torch.tensor(metadata, dtype=torch.int32, device="cuda")
    op = MoEGroupedGemmFwdOp(layout, activation=activation, out_dtype=out_dtype)
    params = {"layout": layout, "activation": activation}
    inputs = a.cpu().double(), b.cpu().double(), places.cpu()
    wide = moe_grouped_gemm(*inputs, **params)
    result = moe_grouped_gemm_canonical((op(a, b, places).cpu().double(),), *inputs, **params)[0]
    exact = op.out_dtype == torch.float32
    torch.testing.assert_close(result, wide, rtol=1e-4 if exact else 2.0**-7, atol=2e-3)
    assert serving(op, "grouped_gemm") == {"MoEGroupedGemmPipelinedKernel"}


@pytest.mark.parametrize(("layout", "metadata"), LAYOUTS, ids=lambda value: str(value)[:40])
def test_rows_of_experts_are_accurate(draw, serving, layout, metadata):
    a = draw(1024, 1096, dtype=torch.bfloat16, scale=0.1)
    b = draw(4, 520, 1096, dtype=torch.bfloat16)
    ends = torch.tensor(metadata, dtype=torch.int32, device="cuda")
    op = MoEGroupedGemmFwdOp(layout)
    out = torch.zeros(1024, 520, dtype=torch.bfloat16, device="cuda")
    op(a, b, ends, out)
    wide = moe_grouped_gemm(a.cpu().double(), b.cpu().double(), ends.cpu(), layout=layout)
    torch.testing.assert_close(out.cpu().double(), wide, rtol=2.0**-7, atol=2e-3)
    assert serving(op, "grouped_gemm") == {"MoEGroupedGemmPipelinedKernel"}


TIGHT, PER_ROW = LAYOUTS[0][0], LAYOUTS[2][0]
SIZES = [300, 0, 1, 144, 145, 128, 33, 16, 0, 48, 700]


@pytest.mark.parametrize(
    ("tile", "layout", "activation", "out_dtype"),
    [
        *[(tile, TIGHT, "silu_and_mul", torch.bfloat16) for tile in GROUP_TILES],
        (GROUP_TILES[-1], TIGHT, None, torch.bfloat16),
        # What takes most shared memory: groups told row by row, wide results.
        (GROUP_TILES[-1], PER_ROW, "silu_and_mul", torch.float32),
        (GROUP_TILES[-1], PER_ROW, None, torch.bfloat16),
    ],
    ids=str,
)
def test_every_tile_is_accurate_again_and_again(draw, tile, layout, activation, out_dtype):
    kernel = MoEGroupedGemmPipelinedKernel(layout, activation, torch.bfloat16, out_dtype, tile, 132)
    sizes = torch.tensor(SIZES)
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    metadata = (owners if layout is PER_ROW else sizes.cumsum(0)).int().cuda()
    a = draw(sum(SIZES), 1096, dtype=torch.bfloat16, scale=0.1)
    b = draw(len(SIZES), 528 * (2 if activation else 1), 1096, dtype=torch.bfloat16)
    out = torch.full((len(a), 528), torch.nan, dtype=out_dtype, device="cuda")
    kernel(a, b, metadata, out)
    inputs = a.cpu().double(), b.cpu().double(), metadata.cpu()
    wide = moe_grouped_gemm(*inputs, layout=layout, activation=activation)
    exact = out_dtype == torch.float32
    torch.testing.assert_close(out.cpu().double(), wide, rtol=1e-4 if exact else 2.0**-7, atol=2e-3)
    first = out.clone()
    for _ in range(20):
        kernel(a, b, metadata, out)
        assert torch.equal(out, first)  # an error that moves would be a race


def test_what_lies_beside_an_experts_rows_does_not_matter(draw):
    a = draw(82, 200, dtype=torch.bfloat16)
    b = draw(3, 144, 200, dtype=torch.bfloat16)
    a[3:73], b[1] = torch.nan, torch.inf
    ends = torch.tensor([3, 73, 82], dtype=torch.int32, device="cuda")
    out = MoEGroupedGemmFwdOp(TIGHT, activation="silu_and_mul")(a, b, ends)
    assert out[3:73].isnan().all()
    assert out[:3].isfinite().all()
    assert out[73:].isfinite().all()
