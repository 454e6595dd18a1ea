"""Rotary embeddings: both layouts, partial rotations, positions, views, odd widths."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.rope.kernels import RotaryTileKernel, access_to

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def _case(name, shape, dtype, interleaved=False, width=None, positions=None, view=None, **more):
    width = shape[3] if width is None else width

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        x = torch.randn(shape, generator=generator).to(dtype)
        x = x if view is None else view(x)
        angle = torch.randn(2 * x.shape[1], width // 2, generator=generator)
        rows = None
        if positions is not None:
            rows = torch.randperm(2 * x.shape[1], generator=generator)[: x.shape[1]].to(positions)
        return x, angle.cos(), angle.sin(), rows

    def expected(x: Tensor, cos: Tensor, sin: Tensor, rows: Tensor | None) -> Tensor:
        rows = torch.arange(x.shape[1]) if rows is None else rows.long()
        cos, sin = cos[rows][:, None], sin[rows][:, None]
        y = x.clone()
        at = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (
            slice(0, width // 2), slice(width // 2, width)
        )  # fmt: skip
        a, b = x[..., at[0]], x[..., at[1]]
        y[..., at[0]], y[..., at[1]] = a * cos - b * sin, b * cos + a * sin
        return y

    x, _, _, rows = inputs(torch.Generator().manual_seed(1))
    access = access_to(x, width, interleaved, rows)
    layout = "interleaved" if interleaved else "neox"
    constants = (layout, x.shape[3], width, dtype, access)
    return Case(name, RotaryTileKernel, constants, inputs, expected, **more)


WIDE = ("uint4", "store_global_128")

CASES = (
    _case("neox", (2, 5, 9, 128), BF16, contains=WIDE),
    _case("interleaved", (2, 5, 3, 64), F16, True, contains=WIDE),
    _case("one head", (1, 37, 1, 64), BF16, contains=WIDE),
    _case("float32", (1, 3, 17, 32), F32, contains=("store_global_128",)),
    _case("part of a head, positions", (1, 6, 4, 96), BF16, width=64, positions=torch.int64),
    _case("interleaved, positions", (1, 6, 2, 32), F32, True, 16, torch.int32),
    _case("heads of a packed projection", (2, 3, 24, 32), F16, view=lambda x: x[:, :, 8:16]),
    _case("odd width", (2, 3, 2, 10), BF16),
)
