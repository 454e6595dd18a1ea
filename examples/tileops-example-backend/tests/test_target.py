"""The target serves what it registered for, under the rules that TileOPs keeps for everyone."""

from __future__ import annotations

import pytest
import torch
from tileops import OpNotAvailableError, SignatureError, backend
from tileops.gemm import GemmFwdOp
from tileops.moe import SharedExpertMLPFwdOp
from tileops.norm import LayerNormFwdOp, RMSNormFwdOp

from tileops_example_backend import SWITCH, TARGET


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Standard normal numbers from a fixed seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def test_the_package_was_loaded_and_changed_no_default() -> None:
    assert backend.load_failures() == ()
    assert TARGET in backend.registered_targets()
    assert backend.default_target() is None
    assert backend.registered_targets("GemmFwdOp") == (TARGET,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_is_right(dtype: torch.dtype, weighted: bool) -> None:
    x, weight = drawn(3, 4, 16, dtype=dtype), drawn(16, dtype=dtype) if weighted else None
    served, ours = (RMSNormFwdOp([16], target=t) for t in (TARGET, backend.BUILTIN))
    torch.testing.assert_close(served(x, weight), ours(x, weight))
    assert served.serving_target == TARGET
    assert served.eval_roofline() == ours.eval_roofline()


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
def test_products_are_right_whatever_the_strides(trans_a: bool, trans_b: bool) -> None:
    a = drawn(9, 5).mT if trans_a else drawn(5, 9).mT
    b = drawn(5, 7).mT if trans_b else drawn(7, 5).mT
    assert not a.is_contiguous()
    served, ours = (GemmFwdOp(trans_a, trans_b, target=t) for t in (TARGET, backend.BUILTIN))
    torch.testing.assert_close(served(a, b), ours(a, b))


def test_the_stages_of_a_composite_are_served() -> None:
    served, ours = (SharedExpertMLPFwdOp(target=t) for t in (TARGET, backend.BUILTIN))
    tensors = [drawn(*shape, dtype=torch.bfloat16) for shape in ((6, 16), (24, 16), (16, 12))]
    torch.testing.assert_close(served(*tensors), ours(*tensors), rtol=2e-2, atol=2e-1)
    assert [op.serving_target for op in served.held_delegates()] == [TARGET] * 3
    assert list(served.iter_kernels()) == []
    assert [len(records) for records in served.last_call.stages.values()] == [1, 1, 1]


def test_it_claims_the_cpu_where_it_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = RMSNormFwdOp([8]), RMSNormFwdOp([8])
    first(drawn(2, 8))
    monkeypatch.setenv(SWITCH, "1")
    second(drawn(2, 8))
    assert (first.serving_target, second.serving_target) == (backend.BUILTIN, TARGET)


def test_what_it_does_not_build_is_refused_and_not_quietly_served() -> None:
    op = LayerNormFwdOp([8], target=TARGET)
    with pytest.raises(OpNotAvailableError, match="'example' has no builder for LayerNormFwdOp"):
        op(drawn(2, 8))


def test_calls_are_checked_before_it_sees_them() -> None:
    with pytest.raises(SignatureError, match="inputs.x.shape"):
        RMSNormFwdOp([8], target=TARGET)(drawn(2, 7))


def test_it_builds_once_per_shape_and_dtype() -> None:
    op = RMSNormFwdOp([8], target=TARGET)
    for rows in (2, 2, 3):
        op(drawn(rows, 8))
    assert len(op.built_entries("rms_norm")) == 2


def test_it_compiles_without_a_break() -> None:
    op = RMSNormFwdOp([8], target=TARGET)
    x = drawn(4, 8)
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), op(x))
