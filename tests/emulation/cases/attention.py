"""Attention: head sizes, groups, masks aligned at the lower right, tails everywhere, pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.attention.kernels import (
    DenseAttentionDecodeKernel,
    DenseAttentionPipelinedKernel,
    LatentDecodePipelinedKernel,
    PagedDecodeKernel,
    PagedPrefillPipelinedKernel,
    VarlenAttentionPipelinedKernel,
)
from tileops.attention.kernels.cached import Pages
from tileops.attention.kernels.device import Group
from tileops.attention.kernels.prefill import Window
from tileops.attention.reference import (
    grouped_query_attention_dense,
    grouped_query_attention_prefill_paged_with_kv_cache,
    grouped_query_attention_varlen,
    multi_head_latent_attention_decode_with_kv_cache,
)

# Weights are rounded before they meet the values, so the error is relative to the values.
ABSOLUTE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


def _case(
    name, batch, rows, columns, heads, kv_heads, width, is_causal, dtype, scale=None, config=None,
    *, left=-1, right=-1, softcap=0.0,
):  # fmt: skip
    """Equally long requests; fewer blocks than tiles, so that every block walks."""
    group = Group(heads, kv_heads, width, scale or width**-0.5, softcap, dtype, 3)

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        def draw(length: int, count: int) -> Tensor:
            return torch.randn(batch, length, count, width, generator=generator).to(dtype)

        return draw(rows, heads), draw(columns, kv_heads), draw(columns, kv_heads), *[None] * 5

    def expected(*tensors: Tensor | None) -> Tensor:
        return grouped_query_attention_dense(
            *tensors, is_causal=is_causal, sm_scale=scale, window_size_left=left,
            window_size_right=right, softcap=softcap,
        )  # fmt: skip

    return Case(
        name,
        DenseAttentionPipelinedKernel,
        (group, Window(left, 0 if is_causal else right)),
        inputs,
        expected,
        config or {},
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load", "tl::tma_store"),
        absolute=ABSOLUTE[dtype],
    )


def _varlen(name, rows, columns, heads, kv_heads, width, dtype, *, left=-1, right=0, softcap=0.0):
    """Packed requests; keys behind a request's last are another's, and NaN."""
    group = Group(heads, kv_heads, width, width**-0.5, softcap, dtype, 0)

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        def draw(length: int, count: int) -> Tensor:
            return torch.randn(length, count, width, generator=generator).to(dtype)

        starts = [torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (rows, columns)]
        keys, values = (draw(sum(columns), kv_heads) for _ in "kv")
        for part in (keys, values):
            part[starts[1][-2] :] = torch.nan
        return draw(sum(rows), heads), keys, values, *starts, *[None] * 5

    def expected(*tensors: Tensor | None) -> Tensor:
        q, k, v, *starts = tensors[:5]
        return grouped_query_attention_varlen(
            q, k, v, *(part.int() for part in starts), is_causal=right == 0,
            window_size_left=left, window_size_right=right, softcap=softcap,
        )  # fmt: skip

    return Case(
        name,
        VarlenAttentionPipelinedKernel,
        (group, Window(left, right)),
        inputs,
        expected,
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load", "tl::tma_store"),
        absolute=ABSOLUTE[dtype],
    )


def _decode(name, batch, keys, heads, kv_heads, width, dtype, slots=1, window=-1, softcap=0.0):
    """One query of each request; as many parts as `slots` multiprocessors ask for."""
    group = Group(heads, kv_heads, width, width**-0.5, softcap, dtype, slots)

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        def draw(length: int, count: int) -> Tensor:
            return torch.randn(batch, length, count, width, generator=generator).to(dtype)

        return draw(1, heads), draw(keys, kv_heads), draw(keys, kv_heads), *[None] * 5

    def expected(*tensors: Tensor | None) -> Tensor:
        return grouped_query_attention_dense(*tensors, window_size_left=window, softcap=softcap)

    return Case(
        name,
        DenseAttentionDecodeKernel,
        (group, window),
        inputs,
        expected,
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load"),
        absolute=ABSOLUTE[dtype],
    )


class _Paged(Case):
    """A case whose kernel writes pages, which are results too."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()

        def call(*tensors: Tensor) -> tuple[Tensor, ...]:
            pages = tensors[3].clone(), tensors[4].clone()
            return kernel(*tensors[:3], *pages, *tensors[5:]), *pages

        return call


def _paged(
    name, cached, new, heads, kv_heads, width, page, dtype, *, softcap=0.0, rotary=0, is_causal=True
):
    """Requests with `cached` rows and `new` tokens; rows that hold nothing are NaN."""
    requests, longest, positions = len(cached), max(1, *new), 300
    entries = max(c + n for c, n in zip(cached, new, strict=True)) // page + 2
    count = requests * entries + 1

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        def draw(length: int, count: int) -> Tensor:
            return torch.randn(length, count, width, generator=generator).to(dtype)

        table = torch.randperm(count, generator=generator)[: requests * entries].int()
        table = table.view(requests, entries)
        pages = [torch.full((count * page, kv_heads, width), torch.nan, dtype=dtype) for _ in "kv"]
        for request, length in enumerate(cached):
            place = torch.arange(length)
            row = table[request].long()[place // page] * page + place % page
            for part in pages:
                part[row] = draw(length, kv_heads)
        tokens, one = sum(new), torch.ones(1)
        starts, lengths = torch.tensor([0, *new]).cumsum(0).int(), torch.tensor(cached).int()
        new_rows = draw(tokens, heads + 2 * kv_heads).split([heads, kv_heads, kv_heads], dim=1)
        return *new_rows, *pages, one, one, starts, lengths, table

    def expected(*tensors: Tensor) -> tuple[Tensor, ...]:
        *floats, starts, lengths, table = tensors
        out = grouped_query_attention_prefill_paged_with_kv_cache(
            *floats, starts.int(), lengths.int(), table.int(), page_size=page,
            max_seqlen_q=longest, softcap=softcap, fuse_rope=rotary > 0, rotary_dim=rotary or None,
            max_position=positions, is_causal=is_causal,
        )  # fmt: skip
        return out, floats[3], floats[4]

    group = Group(heads, kv_heads, width, width**-0.5, softcap, dtype, 1)
    pages = Pages(page, rotary, 10000.0, positions) if rotary else Pages(page)
    kernel, constants = PagedDecodeKernel, (group, pages)
    if longest > 1:
        kernel, constants = PagedPrefillPipelinedKernel, (group, pages, is_causal, longest)
    return _Paged(
        name,
        kernel,
        constants,
        inputs,
        expected,
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load"),
        absolute=ABSOLUTE[dtype],
    )


def _latent(name, batch, entries, heads, width, dtype, blocks):
    """One query of each request over a latent cache; the rotated part has 64 channels."""

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        def draw(*shape: int) -> Tensor:
            return torch.randn(batch, *shape, generator=generator).to(dtype)

        queries = draw(heads, width), draw(heads, 64)
        return *queries, draw(entries, 1, width), draw(entries, 1, 64)

    return Case(
        name,
        LatentDecodePipelinedKernel,
        (heads, width, dtype, blocks),
        inputs,
        multi_head_latent_attention_decode_with_kv_cache,
        contains=("tl::wgmma_ss", "tl::wgmma_rs", "tl::tma_load"),
        absolute=ABSOLUTE[dtype],
    )


JOINED = {"joins": True}
F16, BF16 = torch.float16, torch.bfloat16

CASES = (
    _case("causal 128", 1, 300, 350, 2, 1, 128, True, F16),
    _case("full 128", 2, 130, 330, 2, 2, 128, False, BF16),
    _case("causal 128, joined", 1, 300, 300, 2, 1, 128, True, BF16, config=JOINED),
    _case("causal 64", 1, 200, 420, 3, 1, 64, True, BF16),
    _case("full 64", 1, 400, 100, 2, 1, 64, False, F16, 0.3),
    _case("more keys than queries", 1, 2, 390, 2, 1, 128, True, BF16),
    _case("one key", 1, 3, 1, 1, 1, 64, False, F16),
    _case("widest heads, window", 1, 200, 300, 2, 1, 256, True, BF16, left=90),
    _case("both sides of a window", 1, 300, 260, 1, 1, 64, False, F16, left=70, right=40),
    _case("bound", 1, 200, 200, 1, 1, 128, True, F16, softcap=5.0),
    _varlen("causal", [130, 0, 5, 200, 1, 3], [300, 20, 0, 129, 77, 50], 2, 1, 64, BF16),
    _varlen("window", [129, 70, 4], [129, 200, 30], 2, 2, 128, F16, left=50, right=-1),
    _varlen("widest heads", [140, 3], [150, 60], 1, 1, 256, F16, right=-1, softcap=5.0),
    _varlen("many requests", [1] * 40 + [0] * 30 + [200], [2] * 70 + [200], 1, 1, 64, F16),
    _paged("tokens, small pages", [100, 64, 0], [40, 1, 150], 2, 1, 64, 16, BF16, rotary=32),
    _paged("tokens, large pages", [3, 0], [130, 70], 2, 2, 128, 192, F16, is_causal=False),
    _paged("tokens, widest heads", [200], [20], 2, 1, 256, 64, F16, rotary=256, softcap=5.0),
    _decode("one part", 2, 130, 8, 2, 64, F16),
    _decode("parts", 1, 300, 6, 1, 128, BF16, slots=4),
    _decode("many parts, odd heads", 1, 1300, 3, 1, 64, F16, slots=21),
    _decode("window and bound", 1, 300, 4, 2, 128, F16, slots=2, window=100, softcap=5.0),
    _decode("more heads than a tile", 1, 70, 160, 2, 64, BF16, slots=5),
    _decode("widest heads", 1, 200, 2, 1, 256, F16, slots=3),
    _paged("small pages", [100, 64, 0, 300], [1, 1, 0, 1], 8, 2, 64, 16, F16),
    _paged("large pages", [1, 64, 5, 331], [0, 1, 1, 1], 6, 1, 128, 128, BF16, rotary=64),
    _paged("last positions", [310], [1], 6, 2, 128, 64, F16, softcap=5.0, rotary=128),
    _paged("pages between tiles", [1, 331], [1, 1], 4, 1, 64, 192, F16),
    _latent("latent, one part", 1, 300, 64, 512, F16, 1),
    _latent("latent, parts, odd heads", 2, 450, 130, 128, BF16, 18),
    _latent("latent, many tiles", 1, 700, 100, 128, F16, 1),
    _latent("latent, few heads", 1, 300, 16, 256, BF16, 2),
)
