"""Dense attention: both head sizes, groups, masks aligned at the lower right, tails everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.attention.kernels import DenseAttentionPipelinedKernel
from tileops.attention.reference import grouped_query_attention_dense

# Weights are rounded before they meet the values, so the error is relative to the values.
ABSOLUTE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
BLOCKS = 3  # fewer than tiles, so that every block walks


def _case(
    name, batch, rows, columns, heads, kv_heads, width, is_causal, dtype, scale=None, config=None
):
    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        def draw(length: int, count: int) -> Tensor:
            return torch.randn(batch, length, count, width, generator=generator).to(dtype)

        return draw(rows, heads), draw(columns, kv_heads), draw(columns, kv_heads), *[None] * 5

    def expected(*tensors: Tensor | None) -> Tensor:
        return grouped_query_attention_dense(*tensors, is_causal=is_causal, sm_scale=scale)

    return Case(
        name,
        DenseAttentionPipelinedKernel,
        (heads, kv_heads, width, is_causal, scale or width**-0.5, dtype, BLOCKS),
        inputs,
        expected,
        config or {},
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load", "tl::tma_store"),
        absolute=ABSOLUTE[dtype],
    )


NARROW = {"columns": 128, "queries": 2}
F16, BF16 = torch.float16, torch.bfloat16

CASES = (
    _case("causal 128", 1, 300, 350, 2, 1, 128, True, F16),
    _case("full 128", 2, 130, 330, 2, 2, 128, False, BF16),
    _case("narrow tiles 128", 1, 300, 300, 2, 1, 128, True, BF16, config=NARROW),
    _case("causal 64", 1, 200, 420, 3, 1, 64, True, BF16),
    _case("full 64", 1, 400, 100, 2, 1, 64, False, F16, 0.3),
    _case("more keys than queries", 1, 2, 390, 2, 1, 128, True, BF16),
    _case("one key", 1, 3, 1, 1, 1, 64, False, F16),
)
