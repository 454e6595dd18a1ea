"""Rows to float8: rows of part of a warp and of many turns, odd widths, what is no number."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.quantization.kernels import FP8QuantRowsKernel


def _rows(name: str, rows: int, width: int, dtype: torch.dtype, **config: int) -> Case:
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        x = torch.randn(rows, width, generator=generator) * 3
        x[0] = 0
        x[-1, width // 2] = torch.nan
        x[rows // 2, 0] = torch.inf
        return (x.to(dtype),)

    def expected(x: Tensor) -> tuple[Tensor, Tensor]:
        # In float32, as the op says: codes are then the same bit for bit.
        x = x.float()
        scale = x.abs().amax(-1).clamp(min=1e-4) / torch.tensor(448.0)
        return scale, (x / scale[:, None]).to(torch.float8_e4m3fn)

    return Case(name, FP8QuantRowsKernel, (width, dtype), inputs, expected, config)


CASES = (
    _rows("half a warp", 37, 128, torch.bfloat16),
    _rows("quarter of a warp", 50, 64, torch.float16, threads=128),
    _rows("float32", 9, 128, torch.float32),
    _rows("ragged turns", 5, 600, torch.bfloat16),
    _rows("odd width", 11, 33, torch.float16),
    _rows("one element", 70, 1, torch.float32),
)
