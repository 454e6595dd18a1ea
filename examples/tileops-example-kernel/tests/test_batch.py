"""Where the kernel is chosen, where it gives way, and that its results are right."""

from __future__ import annotations

import pytest
import torch
from tileops.gemm import GemmFwdOp
from tileops.gemm.kernels import GemmCall

from tileops_example_kernel.kernels import GemmBatchKernel

HOPPER = torch.device("cuda:0")


def hopper_call(m: int, dtype: torch.dtype = torch.bfloat16) -> GemmCall:
    """A call as on a Hopper GPU, whatever this machine has."""
    return GemmCall(m, 4096, 4096, False, True, dtype, device=HOPPER, arch=90, sm_count=132)


def test_it_is_preferred_in_its_region_alone() -> None:
    op = GemmFwdOp()
    rows = (2, 32, 64, 65, 128, 129)
    chosen = [op.key_for("gemm", hopper_call(m)) for m in rows]
    assert chosen == ["gemv", "split", "pipelined", "batch", "batch", "pipelined"]
    assert op.key_for("gemm", hopper_call(128, torch.float32)) == "batch"
    assert op.key_for("gemm", hopper_call(129, torch.float32)) == "portable"


def test_every_candidate_says_why_it_is_passed_over() -> None:
    report = GemmFwdOp().explain(torch.zeros(32, 8), torch.zeros(4, 8))
    verdicts = {key: verdict for key, _, verdict in report.interfaces[0].candidates}
    assert report.interfaces[0].key == "portable"
    assert verdicts["batch"] == "multiplies 65 to 128 rows, not 32"


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("m", [65, 100, 128])
def test_products_are_right(m: int, trans_a: bool, trans_b: bool) -> None:
    generator = torch.Generator().manual_seed(m)
    a = torch.randn((8, m) if trans_a else (m, 8), generator=generator)
    b = torch.randn((5, 8) if trans_b else (8, 5), generator=generator)
    op = GemmFwdOp(trans_a, trans_b)
    expected = (a.T if trans_a else a).double() @ (b.T if trans_b else b).double()
    torch.testing.assert_close(op(a, b), expected.float(), rtol=1e-5, atol=1e-5)
    assert [type(kernel) for kernel in op.iter_kernels()] == [GemmBatchKernel]


def test_one_build_serves_a_growing_batch() -> None:
    op = GemmFwdOp()
    for m in range(65, 129, 9):
        op(torch.zeros(m, 8), torch.zeros(4, 8))
    assert len(op.built_entries("gemm")) == 1
