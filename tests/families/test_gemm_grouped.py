"""A product for each group of rows: layouts, groups without rows, blocks, gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tileops.gemm import GroupedGemmFwdOp, reference
from tileops.gemm.kernels import GroupedGemmCall, GroupedGemmPortableKernel, blocks
from tileops.gemm.kernels.blocks import BLOCK_ROWS, cut

SIZES = [[5, 3, 1], [0, 9, 0], [9, 0, 0], [0, 0, 1], [130, 64, 65], [1, 1, 1]]
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


def groups(sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Sizes and offsets."""
    counts = torch.tensor(sizes, dtype=torch.int32)
    return counts, (counts.cumsum(0) - counts).int()


def operands(draw, sizes, layout, dtype=torch.float32, n=6, k=4):
    transpose_a, transpose_b = layout
    rows = sum(sizes)
    a = draw(rows, n if transpose_a else k, dtype=dtype)
    b = draw(rows, k, dtype=dtype) if transpose_a else draw(len(sizes), k, n, dtype=dtype)
    return a, b.mT.contiguous() if transpose_b else b, *groups(sizes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(draw, close, dtype, sizes, layout):
    tensors = operands(draw, sizes, layout, dtype)
    params = dict(zip(("transpose_a", "transpose_b"), layout, strict=True))
    op = GroupedGemmFwdOp(**params)
    close(op(*tensors), reference.grouped_gemm(*tensors, **params), 1e-2)
    assert op.eval_roofline()[0] == 2 * sum(sizes) * 6 * 4


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("gathered", [1, 1 << 28])
def test_blocks_give_what_groups_one_by_one_give(monkeypatch, draw, close, sizes, layout, gathered):
    monkeypatch.setattr(blocks, "GATHERED_BYTES", gathered)
    a, b, counts, offsets = operands(draw, sizes, layout)
    facts = (len(sizes), len(a), 6, 4, *layout, torch.float32)
    kernel = GroupedGemmPortableKernel(GroupedGemmCall(*facts))
    right = b.mT if layout[1] else b
    shape = (len(sizes), 6, 4) if layout[0] else (len(a), 6)
    parts = cut(offsets.long(), offsets.long() + counts, len(a))
    by_block = kernel._weights_by_block if layout[0] else kernel._rows_by_block
    wanted = torch.empty(shape)
    kernel._by_group(a, right, sizes, wanted)
    close(by_block(a, right, parts, torch.empty(shape)), wanted, 1e-5)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_row_has_one_place(sizes):
    counts, offsets = groups(sizes)
    parts = cut(offsets.long(), offsets.long() + counts, sum(sizes))
    held = parts.row[parts.holds]
    assert sorted(held.tolist()) == list(range(sum(sizes)))
    assert torch.equal(parts.row.flatten()[parts.place], torch.arange(sum(sizes)))
    assert len(parts.group) <= sum(sizes) // BLOCK_ROWS + len(sizes)


def test_row_counts_do_not_make_entries(draw):
    op = GroupedGemmFwdOp()
    for size in range(1, 6):
        op(*operands(draw, [size, 2], (False, True)))
    assert len(op.built_entries("grouped_gemm")) == 1
