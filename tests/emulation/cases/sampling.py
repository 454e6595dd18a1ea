"""Draws: rows cut once and more often, widths of every access, zeros, weights below zero."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.sampling import reference
from tileops.sampling.kernels import SamplingTileKernel


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


SMALL = {"threads": 64, "unroll": 2}

CASES = (
    _case("one cut", 9, 240, 4, contains=("float4",)),
    _case("three cuts", 9, 1000, 4, config=SMALL),
    _case("odd width", 5, 333, 1, config=SMALL),
    _case("even width", 5, 70, 2, config=SMALL),
    _case("fewer than a warp", 4, 3, 1),
)
