"""Draws: rows cut once and more often, widths of every access, zeros, weights below zero.

Masks: rows of every dtype, shared or not, with ties, zeros of both signs, NaN and infinities.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.sampling import reference
from tileops.sampling.kernels import (
    LogitMaskRadixKernel,
    MinPMaskTileKernel,
    SamplingTileKernel,
)


def _case(name: str, rows: int, n: int, vector: int, **more) -> Case:
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        weights = torch.rand(rows, n, generator=generator) - 0.3  # a third counts as 0
        weights[0] = 0.0
        weights[1, : n // 2] = 0.0
        weights[2, : n - 1] = 0.0
        return weights, torch.tensor([2**40 + 7]), torch.tensor([-3])

    def expected(weights: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        return reference.sampling_from_probs(weights, seed.long(), offset.long())

    return Case(name, SamplingTileKernel, (vector,), inputs, expected, **more)


def _rows(dtype: torch.dtype, n: int) -> Callable[[torch.Generator], Tensor]:
    """Logits of which some are equal, masked, not finite or all alike."""

    def make(generator: torch.Generator) -> Tensor:
        logits = (torch.randn(10, n, generator=generator) * 3).to(dtype)
        logits[1] = logits[1].round()
        logits[2, ::3] = -torch.inf
        logits[3, n // 2] = torch.nan
        logits[4, n // 3] = torch.inf
        logits[5] = -torch.inf
        logits[6, 1::2] = -0.0
        logits[6, ::4] = 0.0
        logits[7] = 1.5
        return logits

    return make


def _masks(
    name: str, dtype: torch.dtype, n: int, vector: int, blocks: int, config: dict
) -> list[Case]:
    logits = _rows(dtype, n)

    def some(generator: torch.Generator, *values: float) -> Tensor:
        return torch.tensor(values)[torch.randint(len(values), (10,), generator=generator)]

    def ranks(generator: torch.Generator) -> Tensor:
        return some(generator, 1, 2, n // 3 + 1, max(1, n - 1), n, 2**30).int()

    def shares(generator: torch.Generator) -> Tensor:
        return some(generator, 0.0, 1e-9, 0.3, 0.9, 0.9999, 1.0, 2.0, torch.nan)

    kinds = {
        "by rank": (True, False, lambda x, k, p: reference.topk_mask(x, k.int())),
        "by probability": (False, True, lambda x, k, p: reference.topp_mask(x, p)),
        "by both": (True, True, lambda x, k, p: reference.topk_topp_mask(x, k.int(), p)),
    }

    def case(kind: str, has_k: bool, has_p: bool, expected: Callable[..., Tensor]) -> Case:
        def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
            k = ranks(generator) if has_k else None
            return logits(generator), k, shares(generator) if has_p else None

        constants = dtype, has_k, has_p, vector, blocks
        return Case(f"{name}, {kind}", LogitMaskRadixKernel, constants, inputs, expected, config)

    def least(generator: torch.Generator) -> tuple[Tensor, ...]:
        return logits(generator), some(generator, 0.0, 1e-9, 0.07, 0.5, 1.0)

    def expected(x: Tensor, min_p: Tensor) -> Tensor:
        return reference.minp_mask(x, min_p.float())

    masks = [case(kind, *how) for kind, how in kinds.items()]
    constants = dtype, vector, blocks
    return [*masks, Case(name, MinPMaskTileKernel, constants, least, expected, config)]


SMALL = {"threads": 64, "unroll": 2}
MASKS = {
    "odd width": (torch.float32, 333, 1, 1, SMALL),
    "shared": (torch.bfloat16, 1200, 8, 2, SMALL),
    "shared by four": (torch.float16, 900, 4, 4, {"threads": 128, "unroll": 1}),
    "few, of whole blocks": (torch.float32, 4, 4, 1, {}),
}

CASES = (
    _case("one cut", 9, 240, 4, contains=("float4",)),
    _case("three cuts", 9, 1000, 4, config=SMALL),
    _case("odd width", 5, 333, 1, config=SMALL),
    _case("even width", 5, 70, 2, config=SMALL),
    _case("fewer than a warp", 4, 3, 1),
    *(case for name, mask in MASKS.items() for case in _masks(name, *mask)),
)
