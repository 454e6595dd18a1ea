"""Routed layers: products of experts' rows, ways of rows to experts and back, selection.

All kinds of metadata, gaps, experts without rows; more routes than one turn of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.gemm.kernels import GROUP_TILES
from tileops.moe.kernels import (
    FusedTopKWarpKernel,
    IndexedExpertMLPGroupedKernel,
    MoEGroupedGemmPipelinedKernel,
    MoEPermuteAlignCountingKernel,
    MoEPostPermuteRowsKernel,
    MoEPrePermuteCountingKernel,
)
from tileops.moe.reference import (
    fused_topk,
    indexed_expert_mlp,
    moe_grouped_gemm,
    moe_permute_align,
    moe_permute_align_canonical,
    moe_post_permute,
    moe_pre_permute,
    moe_pre_permute_canonical,
)
from tileops.moe.types import RoutingEpilogueSpec
from tileops.moe.types.layouts import ContiguousLayoutSpec, MaskedLayoutSpec


class _Written(Case):
    """A case whose kernel writes its last argument; rows of no expert stay 0."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()

        def call(a: Tensor, b: Tensor, metadata: Tensor) -> Tensor:
            columns = b.shape[1] // (1 if kernel.activation is None else 2)
            out = a.new_zeros(*a.shape[:-1], columns, dtype=kernel.out_dtype)
            kernel(a, b, metadata, out)
            return out

        return call


def _case(
    name,
    layout,
    experts,
    rows,
    metadata,
    activation=None,
    out_dtype=torch.bfloat16,
    tile=GROUP_TILES[1],
    n=80,
    **config,
):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = (experts, rows) if isinstance(layout, MaskedLayoutSpec) else (rows,)
        a = torch.randn(*shape, 136, generator=generator).bfloat16()
        b = torch.randn(experts, n, 136, generator=generator).bfloat16()
        return a, b / 4, torch.tensor(metadata, dtype=torch.int32)

    def expected(a: Tensor, b: Tensor, metadata: Tensor) -> Tensor:
        return moe_grouped_gemm(a, b, metadata.int(), layout=layout, activation=activation)

    constants = (layout, activation, torch.bfloat16, out_dtype, tile, 3)
    return _Written(
        name, MoEGroupedGemmPipelinedKernel, constants, inputs, expected, config, absolute=2e-3
    )


class _Canonical(Case):
    """A case whose results stand for others: they are compared in the form that all share."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()
        return lambda *inputs: self.canonical(kernel(*inputs), *inputs)

    def canonical(self, results: Any, *inputs: Tensor) -> Any:
        raise NotImplementedError


class _Permuted(_Canonical):
    def canonical(self, results: Any, hidden: Tensor, ids: Tensor) -> Any:
        layout, experts, *_ = self.constants
        return moe_pre_permute_canonical(
            results, hidden, ids, layout=layout, num_local_experts=experts
        )


class _Aligned(_Canonical):
    def canonical(self, results: Any, ids: Tensor) -> Any:
        experts, size, _ = self.constants
        return moe_permute_align_canonical(results, ids, num_experts=experts, block_size=size)


def _pre_permute(
    name, layout, experts, tokens, top_k, hidden=136, dtype=torch.bfloat16, skew=1, shared=False
):
    """Experts below `skew` get no route where it is above 1."""

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        x = torch.randn(tokens, hidden, generator=generator).to(dtype)
        ids = torch.randint(skew - 1, experts, (tokens, top_k), generator=generator)
        return x, ids.int()

    def expected(x: Tensor, ids: Tensor) -> Any:
        made = moe_pre_permute(x, ids.int(), layout=layout, num_local_experts=experts)
        return moe_pre_permute_canonical(
            made, x, ids.int(), layout=layout, num_local_experts=experts
        )

    constants = layout, experts, top_k, dtype, shared
    return _Permuted(name, MoEPrePermuteCountingKernel, constants, inputs, expected)


def _align(name, experts, block_size, tokens, top_k, others=0, shared=False):
    """Ids reach `others` beyond the experts on both sides."""

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = tokens, top_k
        return (torch.randint(-others, experts + others, shape, generator=generator).int(),)

    def expected(ids: Tensor) -> Any:
        params = {"num_experts": experts, "block_size": block_size}
        made = moe_permute_align(ids.int(), **params)
        return moe_permute_align_canonical(made, ids.int(), **params)

    constants = experts, block_size, shared
    return _Aligned(name, MoEPermuteAlignCountingKernel, constants, inputs, expected)


class _Summed(Case):
    """A case whose kernel writes its last argument."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()

        def call(x: Tensor, weights: Tensor, places: Tensor) -> Tensor:
            out = x.new_full((weights.shape[0], x.shape[1]), torch.nan, dtype=kernel.out_dtype)
            kernel(x, weights, places, out)
            return out

        return call


def _post_permute(name, tokens, top_k, hidden, dtype, out_dtype, scale):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        routes = tokens * top_k
        x = torch.randn(routes + 3, hidden, generator=generator).to(dtype)
        places = torch.randperm(routes + 3, generator=generator)[:routes].int()
        weights = torch.rand(tokens, top_k, generator=generator)
        unnamed = torch.ones(routes + 3, dtype=torch.bool)
        unnamed[places.long()] = False
        x[unnamed] = torch.nan
        return x, weights, places

    def expected(x: Tensor, weights: Tensor, places: Tensor) -> Tensor:
        epilogue = RoutingEpilogueSpec(scale)
        return moe_post_permute(x, weights, places.int(), layout=_TIGHT, epilogue=epilogue)

    constants = top_k, scale, dtype, out_dtype
    return _Summed(name, MoEPostPermuteRowsKernel, constants, inputs, expected)


def _top_k(name, experts, top_k, scoring, renormalize, tokens=5, bias=None, dtype=torch.float32):
    """Logits of the last token are equal; the bias, of the experts that `bias` names, is -inf."""

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        logits = torch.randn(tokens, experts, generator=generator).to(dtype)
        logits[-1] = 0.5
        if bias is None:
            return logits, None
        correction = torch.randn(experts, generator=generator)
        correction[list(bias)] = -torch.inf
        return logits, correction

    def expected(logits: Tensor, correction: Tensor | None) -> Any:
        weights, ids = fused_topk(
            logits, correction, top_k=top_k, scoring_func=scoring, renormalize=renormalize
        )
        return weights, ids

    constants = experts, top_k, scoring, renormalize, bias is not None, dtype
    return Case(name, FusedTopKWarpKernel, constants, inputs, expected)


class _Indexed(Case):
    """A case whose kernel writes its first argument; what it holds before is no number."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()

        def call(*inputs: Tensor) -> Tensor:
            out = torch.full_like(inputs[0], torch.nan)
            kernel(out, *inputs)
            return out

        return call


def _indexed(name, tokens, top_k, experts, hidden, width, scale):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).bfloat16()

        ids = torch.randint(1, experts, (tokens, top_k), generator=generator).int()
        weights = torch.rand(tokens, top_k, generator=generator)
        up = draw(experts, 2 * width, hidden) / hidden**0.5
        return draw(tokens, hidden), up, draw(experts, hidden, width) / width**0.5, weights, ids

    def expected(x, up, down, weights, ids) -> Tensor:
        out = torch.empty_like(x)
        made = indexed_expert_mlp(out, x, up, down, weights, ids.int(), routed_scaling_factor=scale)
        return out if made is None else made

    constants = experts, top_k, scale, torch.bfloat16, 3
    return _Indexed(name, IndexedExpertMLPGroupedKernel, constants, inputs, expected, absolute=2e-2)


_TIGHT = ContiguousLayoutSpec.tight_physical_psum()

CASES = (
    _pre_permute("ends", _TIGHT, 7, 33, 3),
    _pre_permute("one token, all experts to one", _TIGHT, 1, 1, 1, 8, torch.float32),
    _pre_permute("gaps", ContiguousLayoutSpec("aligned", "physical_psum", 8), 9, 21, 2, 1032),
    _pre_permute("a row's expert", ContiguousLayoutSpec("tight", "per_row"), 40, 5, 4, skew=30),
    _pre_permute(
        "a row's expert, gaps", ContiguousLayoutSpec("aligned", "per_row", 16), 5, 9, 2, skew=3
    ),
    _pre_permute("more routes than a turn", _TIGHT, 300, 930, 9, 8),
    _pre_permute(
        "shared", ContiguousLayoutSpec("aligned", "per_row", 4), 40, 1100, 3, 8, shared=True
    ),
    _pre_permute("shared, ends", _TIGHT, 1024, 2050, 1, 8, skew=900, shared=True),
    _post_permute("sums", 7, 8, 136, torch.bfloat16, torch.bfloat16, 1.0),
    _post_permute("scaled, float32", 3, 11, 1032, torch.float16, torch.float32, 2.5),
    _post_permute("of float32", 2, 1, 12, torch.float32, torch.float16, 0.5),
    _align("blocks", 7, 4, 21, 3),
    _align("other ids", 5, 64, 9, 2, others=3),
    _align("more routes than a turn", 300, 16, 930, 9),
    _align("shared", 30, 16, 2200, 2, others=2, shared=True),
    _indexed("routes", 5, 3, 4, 136, 72, 2.5),
    _top_k("sigmoid", 256, 8, "sigmoid", False),
    _top_k("bias", 72, 6, "sigmoid", True, bias=(3, 40)),
    _top_k("softmax", 40, 4, "softmax", True, dtype=torch.bfloat16),
    _top_k("all experts", 5, 5, "softmax", False, tokens=9),
    _top_k("few experts are left", 6, 4, "sigmoid", False, bias=(0, 1, 2, 4)),
    _case("ends", _TIGHT, 4, 139, [0, 70, 70, 139]),
    _case("gaps", ContiguousLayoutSpec("aligned", "physical_psum", 8), 3, 40, [3, 8, 25]),
    _case(
        "a row's expert",
        ContiguousLayoutSpec("tight", "per_row"),
        3,
        74,
        [0] * 5 + [2] * 67 + [3] * 2,
    ),
    _case(
        "a row's expert, more experts than threads",
        ContiguousLayoutSpec("tight", "per_row"),
        300,
        9,
        [0, 17, 17, 255, 256, 256, 299, 300, 300],
    ),
    _case("slabs", MaskedLayoutSpec(70), 4, 70, [3, 0, 70, 65]),
    _case("float32", _TIGHT, 2, 80, [70, 80], None, torch.float32),
    _case("gates", _TIGHT, 3, 70, [66, 66, 70], "silu_and_mul", n=304),
    _case(
        "other gates, tall tile",
        ContiguousLayoutSpec("tight", "per_row"),
        2,
        150,
        [0] * 139 + [1] * 9 + [2] * 2,
        "gelu_and_mul",
        tile=GROUP_TILES[-1],
    ),
    _case("gates of slabs, float32", MaskedLayoutSpec(9), 3, 9, [3, 0, 9], "silu_and_mul",
          torch.float32, n=272),
)  # fmt: skip
