"""Residual streams of several copies: widths with tails, rounds of Sinkhorn or none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.sequence_modeling.kernels import MHCPostPointwiseKernel, MHCPreFewRowsKernel
from tileops.sequence_modeling.reference import mhc_post, mhc_pre


def _pre(name, rows, n, c_x, rounds):
    alphas = {"alpha_pre": 0.5, "alpha_post": 1.5, "alpha_res": 1.0}

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        coefficients = n * n + 2 * n
        phi = torch.randn(n * c_x, coefficients, generator=generator) / (n * c_x) ** 0.5
        x = torch.randn(rows, n * c_x, generator=generator).bfloat16()
        return phi, x, torch.randn(coefficients, generator=generator)

    def expected(phi: Tensor, x: Tensor, b: Tensor) -> Any:
        return mhc_pre(phi, x, b, **alphas, sinkhorn_repeat=rounds, sinkhorn_eps=0.02)

    constants = ((n, c_x, *alphas.values(), rounds, 0.02),)
    return Case(name, MHCPreFewRowsKernel, constants, inputs, expected, absolute=1e-3)


def _post(name, rows, n, c_x, width):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        layer = torch.randn(rows, c_x, generator=generator).bfloat16()
        x = torch.randn(rows, n * c_x, generator=generator).bfloat16()
        return layer, torch.rand(rows, n, generator=generator), x

    return Case(name, MHCPostPointwiseKernel, (n, width), inputs, mhc_post, absolute=1e-4)


CASES = (
    _pre("four copies", 2, 4, 136, 1),
    _pre("three copies, no round", 1, 3, 77, 0),
    _pre("one copy, many rounds", 3, 1, 300, 20),
    _post("four copies, two blocks of each row", 2, 4, 1160, 8),
    _post("four copies, pairs", 2, 4, 130, 2),
    _post("odd width", 1, 3, 77, 1),
)
