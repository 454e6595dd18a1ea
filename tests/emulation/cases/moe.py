"""Products of experts' rows: both kinds of metadata, gaps, experts without rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.gemm.kernels import GROUP_TILES
from tileops.moe.kernels import MoEGroupedGemmPipelinedKernel
from tileops.moe.reference import moe_grouped_gemm
from tileops.moe.types.layouts import ContiguousLayoutSpec


class _Written(Case):
    """A case whose kernel writes its last argument; rows of no expert stay 0."""

    def build(self) -> Callable[..., Any]:
        kernel = super().build()

        def call(a: Tensor, b: Tensor, metadata: Tensor) -> Tensor:
            out = a.new_zeros(a.shape[0], b.shape[1])
            kernel(a, b, metadata, out)
            return out

        return call


def _case(name, layout, experts, rows, metadata):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        a = torch.randn(rows, 136, generator=generator).bfloat16()
        b = torch.randn(experts, 80, 136, generator=generator).bfloat16()
        return a, b, torch.tensor(metadata, dtype=torch.int32)

    def expected(a: Tensor, b: Tensor, metadata: Tensor) -> Tensor:
        return moe_grouped_gemm(a, b, metadata.int(), layout=layout)

    constants = (layout, torch.bfloat16, GROUP_TILES[1], 3)
    return _Written(name, MoEGroupedGemmPipelinedKernel, constants, inputs, expected)


CASES = (
    _case("ends", ContiguousLayoutSpec.tight_physical_psum(), 4, 139, [0, 70, 70, 139]),
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
)
