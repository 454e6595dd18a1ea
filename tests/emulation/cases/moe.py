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


_TIGHT = ContiguousLayoutSpec.tight_physical_psum()

CASES = (
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
        tile=GROUP_TILES[0],
    ),
    _case("gates of slabs, float32", MaskedLayoutSpec(9), 3, 9, [3, 0, 9], "silu_and_mul",
          torch.float32, n=272),
)  # fmt: skip
