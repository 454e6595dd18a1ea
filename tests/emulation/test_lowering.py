"""Programs of kernels from outside are lowered without a device; one of the tree stands in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tileops._core.dispatch.toolchain import MISSING
from tileops.norm.kernels import RMSNormOnChipKernel
from tileops.testing import lowering
from tileops.testing.drawing import drawn


@pytest.fixture
def on_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel, which two calls ask for."""
    few = [c for c in drawn("RMSNormFwdOp") if c.tensors["x"].dtype == "bfloat16"][:2]
    monkeypatch.setattr(lowering, "lowered_kernels", lambda op: {"on_chip": RMSNormOnChipKernel})
    monkeypatch.setattr(lowering, "drawn", lambda op: few)
    monkeypatch.setattr(lowering, "cases_of", lambda spec: ())


def test_each_configuration_is_lowered_once(on_chip: None) -> None:
    found = list(lowering.lower_all("RMSNormFwdOp"))
    assert {program.kernel for program in found} == {"RMSNormOnChipKernel"}
    assert all("__global__" in program.source for program in found)
    assert len({program.source for program in found}) > 1


def test_calls_that_share_a_build_share_its_program(
    on_chip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [call for call in drawn("RMSNormFwdOp") if call.tensors["x"].dtype == "bfloat16"]
    monkeypatch.setattr(lowering, "drawn", lambda op: few)
    right = RMSNormOnChipKernel.entry_for.__func__  # type: ignore[attr-defined]

    def forgetful(cls: Any, call: Any) -> Any:
        return call.dtype, right(cls, call)[1]

    monkeypatch.setattr(RMSNormOnChipKernel, "entry_for", classmethod(forgetful))
    with pytest.raises(AssertionError, match="have one identity, so that what is built for one"):
        list(lowering.lower_all("RMSNormFwdOp"))


def test_a_program_that_does_not_lower_is_named(
    on_chip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, config: Any) -> None:
        raise ArithmeticError("no such tile")

    monkeypatch.setattr(RMSNormOnChipKernel, "make_program", broken)
    with pytest.raises(AssertionError) as caught:
        list(lowering.lower_all("RMSNormFwdOp"))
    text = str(caught.value)
    assert text.startswith("RMSNormOnChipKernel with {")
    assert "arch=90, sm_count=132" in text
    assert text.endswith(": its program cannot be lowered: ArithmeticError: no such tile")


def test_what_was_lowered_is_told(on_chip: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(count: int) -> str:
        counts = Counter({("RMSNormFwdOp", "RMSNormOnChipKernel"): count})
        (told,) = lowering.told(["RMSNormFwdOp"], counts)
        return told.removeprefix("RMSNormFwdOp: on_chip (RMSNormOnChipKernel): ")

    assert line(1) == "1 program lowered"
    assert line(3) == "3 programs lowered"
    none = "no generated call and no workload row asks for one, or the first failed"
    assert line(0) == f"0 programs lowered: {none}"
    monkeypatch.setattr(lowering, "has_tilelang", lambda: False)
    assert line(0) == f"0 programs lowered: {MISSING}"
    assert lowering.ops_to_lower(["RMSNormFwdOp"]) == []


def test_kernels_of_this_library_are_left_to_its_own_tests() -> None:
    assert lowering.lowered_kernels("RMSNormFwdOp") == {}
    assert lowering.ops_to_lower(["RMSNormFwdOp"]) == []
