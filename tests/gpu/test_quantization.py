"""Rows to float8 on the device: every code as torch makes it, NaN and infinity, views, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.quantization import FP8QuantFwdOp
from tileops.quantization.reference import fp8_quant


def check(op: FP8QuantFwdOp, x: torch.Tensor) -> None:
    """Scales and codes bit for bit, but for the sign of what is no number."""
    scale, codes = op(x)
    # On the CPU, which divides by a number as it divides by a tensor.
    exact_scale, exact = (tensor.to("cuda") for tensor in fp8_quant(x.cpu()))
    torch.testing.assert_close(scale, exact_scale, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(codes.float(), exact.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [1, 7, 64, 96, 128])
@pytest.mark.parametrize("rows", [1, 3, 257, 4096])
def test_rows_are_quantised_in_one_pass(draw, serving, rows, width, dtype):
    op = FP8QuantFwdOp()
    x = draw(1, rows, 3, width, dtype=dtype, scale=5)
    check(op, x)
    assert serving(op, "fp8_quant") == {"FP8QuantRowsKernel"}


def test_zeros_numbers_that_are_none_and_views(draw):
    op = FP8QuantFwdOp()
    x = draw(2, 5, 4, 128, dtype=torch.bfloat16)
    x[0, 0] = 0
    x[0, 1, 2, 5] = torch.nan
    x[1, 1, 0, 0] = -torch.inf
    check(op, x)
    check(op, x.transpose(1, 2))
    check(op, draw(2, 5, 4, 136, dtype=torch.bfloat16)[..., 1:129])


def test_row_counts_share_a_program(draw, programs):
    op = FP8QuantFwdOp()
    for rows in range(1, 60):
        op(draw(1, rows, 1, 128, dtype=torch.bfloat16))
    assert len(programs) == 1
