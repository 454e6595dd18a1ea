"""Which kernels serve batched products, how they are cut, and which calls share a build."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import BmmBwdOp, BmmFP8FwdOp, BmmFwdOp
from tileops.gemm.kernels import (
    BmmCall,
    BmmFP8Call,
    BmmFP8PipelinedKernel,
    BmmPipelinedKernel,
    BmmPortableKernel,
)


def bmm_call(batch, m, n, k, trans_a=False, trans_b=False, dtype=torch.bfloat16, arch=90):
    return BmmCall(m, n, k, trans_a, trans_b, dtype, batch, arch=arch, sm_count=132)


def codes_call(batch, m, n, k, trans_b=True, out_dtype=torch.bfloat16):
    facts = (m, n, k, trans_b, torch.float8_e4m3fn, out_dtype, batch)
    return BmmFP8Call(*facts, arch=90, sm_count=132)


@pytest.mark.parametrize("op", [BmmFwdOp, BmmBwdOp])
@pytest.mark.parametrize(("arch", "key"), [(80, "portable"), (90, "pipelined"), (100, "portable")])
def test_tensor_cores_of_hopper_serve_halves(op: type, arch: int, key: str) -> None:
    assert op().key_for("bmm", bmm_call(16, 512, 512, 512, arch=arch)) == key


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (bmm_call(2, 64, 64, 64, dtype=torch.float32), "float16 and bfloat16, not float32"),
        (bmm_call(2, 64, 64, 0), "has no step to multiply when k is 0"),
        (bmm_call(2, 64, 64, 63), "in a k=63 is no multiple of 8"),
        (bmm_call(2, 63, 64, 64, trans_a=True), "in a m=63 is no multiple of 8"),
        (bmm_call(2, 64, 60, 64), "in b n=60 is no multiple of 8"),
    ],
)
def test_batched_products_that_are_refused_say_why(call: BmmCall, reason: str) -> None:
    refusal = BmmPipelinedKernel.refusal(call)
    assert refusal is not None
    assert refusal.endswith(reason)
    assert BmmFwdOp().key_for("bmm", call) == "portable"


def test_tiles_are_chosen_by_what_all_products_need() -> None:
    def tile(*size: int):
        return BmmPipelinedKernel.entry_for(bmm_call(*size))[0][3][:2]

    assert tile(1, 1024, 1024, 1024) == (64, 128)
    assert tile(8, 1024, 1024, 1024) == (128, 256)
    assert tile(8, 128, 128, 128) == (64, 64)


def test_one_build_serves_a_class_of_shapes() -> None:
    calls = [bmm_call(batch, 300, 256, 128) for batch in range(1, 200)]
    assert len({BmmPipelinedKernel.entry_for(call)[0] for call in calls}) <= 5
    stored = [bmm_call(9, 64, 64, 64, a, b) for a in (False, True) for b in (False, True)]
    assert len({BmmPipelinedKernel.entry_for(call)[0] for call in stored}) == 4


def test_factors_are_read_as_they_are_stored() -> None:
    """A transposed view of contiguous memory is another layout, not a copy."""
    a, b = torch.randn(3, 8, 16), torch.randn(3, 16, 24)
    op = BmmFwdOp()
    for left in (a, a.mT.contiguous().mT):
        for right in (b, b.mT.contiguous().mT):
            torch.testing.assert_close(op(left, right), torch.bmm(a, b))
    kernels = [kernel for kernel in op.iter_kernels() if isinstance(kernel, BmmPortableKernel)]
    layouts = {(kernel.call.trans_a, kernel.call.trans_b) for kernel in kernels}
    assert layouts == {(x, y) for x in (False, True) for y in (False, True)}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (codes_call(2, 64, 64, 0), "has no step to multiply when k is 0"),
        (codes_call(2, 64, 64, 24), "in the factors k=24 is no multiple of 16"),
        (codes_call(2, 64, 60, 64), "in the result n=60 is no multiple of 8"),
    ],
)
def test_products_of_codes_that_are_refused_say_why(call: BmmFP8Call, reason: str) -> None:
    refusal = BmmFP8PipelinedKernel.refusal(call)
    assert refusal is not None
    assert refusal.endswith(reason)
    assert BmmFP8FwdOp(trans_b=True).key_for("bmm_fp8", call) == "portable"


def test_codes_of_either_layout_are_served() -> None:
    for trans_b in (False, True):
        call = codes_call(8, 1024, 1024, 1024, trans_b)
        assert BmmFP8FwdOp(trans_b=trans_b).key_for("bmm_fp8", call) == "pipelined"
    low, high = codes_call(64, 64, 64, 128), codes_call(8, 2048, 2048, 2048)
    tiles = [BmmFP8PipelinedKernel.entry_for(call)[0][2] for call in (low, high)]
    assert tiles[0] != tiles[1]
