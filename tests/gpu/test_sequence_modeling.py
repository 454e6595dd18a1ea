"""Residual streams of several copies on the device."""

from __future__ import annotations

import pytest
import torch

from tileops.sequence_modeling import MHCPostFwdOp, MHCPreFwdOp
from tileops.sequence_modeling.reference import mhc_post, mhc_pre


@pytest.mark.parametrize(("rows", "c_x", "rounds"), [(1, 1280, 1), (64, 2563, 20)])
def test_few_tokens_are_mixed_in_one_pass(draw, serving, rows, c_x, rounds):
    phi = draw(4 * c_x, 24, scale=c_x**-0.5)
    x, b = draw(rows, 4 * c_x, dtype=torch.bfloat16), draw(24)
    params = dict(zip(("alpha_pre", "alpha_post", "alpha_res"), (0.5, 1.5, 1.0), strict=True))
    op = MHCPreFwdOp(**params, sinkhorn_repeat=rounds)
    wide = mhc_pre(phi.cpu(), x.cpu(), b.cpu(), **params, sinkhorn_repeat=rounds)
    for result, other in zip(op(phi, x, b), wide, strict=True):
        step = 2.0**-7 if result.dtype == torch.bfloat16 else 1e-3
        torch.testing.assert_close(result.cpu().double(), other.double(), rtol=step, atol=2e-3)
    assert serving(op, "mhc_pre") == {"MHCPreFewRowsKernel"}


@pytest.mark.parametrize(("rows", "c_x"), [(2, 1920), (300, 77), (70_000, 136), (513, 2562)])
def test_results_are_added_to_all_copies(draw, serving, rows, c_x):
    layer, x = (draw(rows, n * c_x, dtype=torch.bfloat16) for n in (1, 4))
    gates = draw(rows, 4)
    op = MHCPostFwdOp()
    wide = mhc_post(layer.cpu(), gates.cpu(), x.cpu())
    torch.testing.assert_close(op(layer, gates, x).cpu(), wide, rtol=2.0**-7, atol=1e-5)
    assert serving(op, "mhc_post") == {"MHCPostPointwiseKernel"}
