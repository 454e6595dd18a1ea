"""Expert layers: layouts, experts without rows, both ways of multiplying, counts."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from torch import Tensor

from tileops.errors import SignatureError
from tileops.gemm.kernels import blocks
from tileops.moe import (
    ContiguousLayoutSpec,
    ContiguousMetadata,
    ContiguousPacking,
    MaskedLayoutSpec,
    MoEExpertMLPFwdOp,
    MoEGroupedGemmFwdOp,
    SharedExpertMLPFwdOp,
    reference,
)
from tileops.moe.kernels.grouped_gemm import MoEGroupedGemmCall, MoEGroupedGemmPortableKernel
from tileops.moe.kernels.segments import segments

LAYOUTS = [
    ContiguousLayoutSpec.tight_physical_psum(),
    ContiguousLayoutSpec.tight_per_row(),
    ContiguousLayoutSpec.aligned_physical_psum(4),
    ContiguousLayoutSpec.aligned_per_row(4),
]

COUNTS = [[3, 0, 5, 1], [0, 0, 9, 0], [0, 0, 0, 0], [1, 1, 1, 1], [130, 64, 0, 65]]
"""Rows of each of four experts."""


def contiguous(layout: ContiguousLayoutSpec, counts: list[int]) -> tuple[Tensor, int]:
    """Metadata of experts with `counts` rows, and the physical rows with a tail where it may be."""
    a = layout.alignment
    shares = [-(-count // a) * a for count in counts]
    starts = [0, *accumulate(shares)]
    rows = starts[-1] + (2 * a if layout.packing is ContiguousPacking.ALIGNED else 0)
    if layout.metadata_kind is ContiguousMetadata.PHYSICAL_PSUM:
        metadata = [start + count for start, count in zip(starts, counts, strict=False)]
    else:
        owners = [expert for expert, share in enumerate(shares) for _ in range(share)]
        metadata = owners + [len(counts)] * (rows - starts[-1])
    return torch.tensor(metadata, dtype=torch.int32), rows


def valid(result: Tensor, b: Tensor, metadata: Tensor, layout) -> Tensor:
    """The result with 0 in the rows of no expert."""
    form = reference.moe_grouped_gemm_canonical((result,), result, b, metadata, layout=layout)
    return form[0]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("activation", [None, "silu_and_mul", "gelu_and_mul"])
def test_grouped_products(draw, close, layout, counts, activation):
    metadata, rows = contiguous(layout, counts)
    a, b = draw(rows, 24), draw(4, 12, 24, scale=0.2)
    op = MoEGroupedGemmFwdOp(layout, activation=activation)
    expected = reference.moe_grouped_gemm(a, b, metadata, layout=layout, activation=activation)
    close(valid(op(a, b, metadata), b, metadata, layout), expected, 1e-5)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("counts", [counts for counts in COUNTS if any(counts)], ids=str)
@pytest.mark.parametrize("gathered", [1, 1 << 20])
def test_blocks_of_rows_give_what_experts_one_by_one_give(
    monkeypatch, draw, close, layout, counts, gathered
):
    monkeypatch.setattr(blocks, "GATHERED_BYTES", gathered)
    metadata, rows = contiguous(layout, counts)
    a, b = draw(rows, 24), draw(4, 12, 24)
    facts = (layout, 4, rows, 12, 24, None, torch.float32, torch.float32)
    kernel = MoEGroupedGemmPortableKernel(MoEGroupedGemmCall(*facts))
    out = torch.empty(rows, 12)
    kernel._by_block(a, b, segments(layout, metadata, 4), out)
    expected = reference.moe_grouped_gemm(a, b, metadata, layout=layout)
    close(valid(out, b, metadata, layout), expected, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masked_slabs(draw, close, dtype):
    layout, metadata = MaskedLayoutSpec(5), torch.tensor([5, 0, 2], dtype=torch.int32)
    a, b = draw(3, 5, 64, dtype=dtype), draw(3, 16, 64, dtype=dtype, scale=0.1)
    expected = reference.moe_grouped_gemm(a, b, metadata, layout=layout)
    close(valid(MoEGroupedGemmFwdOp(layout)(a, b, metadata), b, metadata, layout), expected, 1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_may_be_float32(draw, close, dtype):
    layout = LAYOUTS[0]
    a, b = draw(7, 512, dtype=dtype), draw(2, 8, 512, dtype=dtype)
    metadata = torch.tensor([3, 7], dtype=torch.int32)
    params = {"layout": layout, "out_dtype": torch.float32}
    expected = reference.moe_grouped_gemm(a, b, metadata, **params)
    close(MoEGroupedGemmFwdOp(**params)(a, b, metadata), expected, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("activation", ["silu_and_mul", "gelu_and_mul"])
def test_expert_layers(draw, close, dtype, activation):
    layout, counts = LAYOUTS[2], [3, 0, 5, 1]
    metadata, rows = contiguous(layout, counts)
    x, gate_up = draw(rows, 32, dtype=dtype), draw(4, 48, 32, dtype=dtype, scale=0.2)
    down = draw(4, 32, 24, dtype=dtype, scale=0.2)
    params = {"layout": layout, "activation": activation}
    op, expected = MoEExpertMLPFwdOp(**params), reference.moe_expert_mlp
    wanted = expected(x, gate_up, down, metadata, **params)
    close(valid(op(x, gate_up, down, metadata), down, metadata, layout), wanted, 2e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("tokens", [1, 33])
def test_shared_expert(draw, close, dtype, tokens):
    x, gate_up = draw(tokens, 32, dtype=dtype), draw(48, 32, dtype=dtype, scale=0.2)
    down = draw(32, 24, dtype=dtype, scale=0.2)
    expected = reference.shared_expert_mlp(x, gate_up, down)
    close(SharedExpertMLPFwdOp()(x, gate_up, down), expected, 2e-2)


def test_row_counts_do_not_make_entries(draw):
    op, b = MoEGroupedGemmFwdOp(LAYOUTS[0]), draw(2, 8, 16)
    for rows in range(1, 9):
        op(draw(rows, 16), b, torch.tensor([0, rows], dtype=torch.int32))
    assert len(op.built_entries("grouped_gemm")) == 1


@pytest.mark.parametrize(
    ("layout", "shape", "metadata", "rows"),
    [
        (LAYOUTS[0], (8,), [3, 3, 8], 8),
        (LAYOUTS[1], (8,), [0, 0, 0, 2, 2, 2, 2, 2], 8),
        (LAYOUTS[2], (16,), [3, 4, 12], 11),
        (LAYOUTS[3], (16,), [0] * 4 + [2] * 8 + [3] * 4, 12),
        (MaskedLayoutSpec(4), (3, 4), [4, 0, 1], 5),
    ],
    ids=str,
)
def test_roofline_counts_rows_and_experts_reached(draw, layout, shape, metadata, rows):
    op = MoEGroupedGemmFwdOp(layout, activation="silu_and_mul")
    op(draw(*shape, 6), draw(3, 10, 6), torch.tensor(metadata, dtype=torch.int32))
    read = 4 * (rows * 6 + 2 * 10 * 6 + len(metadata))
    assert op.eval_roofline() == (rows * (2 * 6 * 10 + 6 * 5), read + 4 * rows * 5)
    assert op.eval_roofline_read_bytes() == read
    assert op.roof_key() == "tensor_core.tf32"


def test_roofline_of_expert_layers(draw):
    op = MoEExpertMLPFwdOp(LAYOUTS[0])
    metadata = torch.tensor([3, 3], dtype=torch.int32)
    op(draw(3, 6), draw(2, 8, 6), draw(2, 6, 4), metadata)
    read = 4 * (3 * 6 + 8 * 6 + 6 * 4 + 2)
    assert op.eval_roofline() == (3 * (6 * 6 * 4 + 6 * 4), read + 4 * 3 * 6)
    assert op.eval_roofline_read_bytes() == read


def test_layouts_are_values():
    by_name = ContiguousLayoutSpec("aligned", "per_row", 4)
    assert by_name == LAYOUTS[3]
    assert hash(by_name) == hash(LAYOUTS[3])
    assert MaskedLayoutSpec(4) == MaskedLayoutSpec(4) != MaskedLayoutSpec(5)
    with pytest.raises(ValueError, match="loose"):
        ContiguousLayoutSpec("loose", "per_row")
    with pytest.raises(AttributeError):
        by_name.alignment = 8


@pytest.mark.parametrize(
    "layout", [ContiguousLayoutSpec("tight", "per_row", 4), LAYOUTS[3].aligned_per_row(1)], ids=str
)
def test_the_invariant_of_a_layout_is_checked_by_the_op(layout):
    with pytest.raises(SignatureError, match="alignment") as raised:
        MoEGroupedGemmFwdOp(layout)
    assert raised.value.phase == "construction"
