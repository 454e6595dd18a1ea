"""Products of experts' rows on the device: all kinds of metadata, gates, float32 results."""

from __future__ import annotations

import pytest
import torch

from tileops.moe import MoEGroupedGemmFwdOp
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
