"""Times beside the limits of a device, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from tileops.bench.profiles import profile_for, profile_of, profiles

TEXT = b"""
device: Toy
source: none
memory: {theoretical: 2.0e9, calibration: 0.5}
tensor_core:
  bf16: {theoretical: 4.0e9, calibration: 0.75}
cuda_core:
  fp32: {theoretical: 1.0e9}
"""
TOY = profile_of(TEXT)


def test_the_slower_of_memory_and_compute_is_the_limit() -> None:
    moved = TOY.reading(3_000_000, 4_000_000, "tensor_core.bf16", 0.008)
    assert moved is not None
    assert (moved.limit, moved.excess) == ("memory", None)
    assert (moved.bound, moved.efficiency) == pytest.approx((0.004, 0.5))
    counted = TOY.reading(9_000_000, 1_000_000, "tensor_core.bf16", 0.004)
    assert counted is not None
    assert counted.limit == "tensor_core.bf16"
    assert counted.efficiency == pytest.approx(0.75)


def test_memory_is_the_limit_of_a_tie() -> None:
    tied = TOY.reading(3_000_000, 1_000_000, "tensor_core.bf16", 0.002)
    assert tied is not None
    assert tied.limit == "memory"


def test_a_unit_that_nobody_measured_prices_nothing() -> None:
    assert TOY.reading(1, 1_000_000, "cuda_core.fp32", 1.0) is None
    assert TOY.reading(1, 1_000_000, "tensor_core.fp8", 1.0) is None
    assert TOY.reading(0, 1_000_000, "cuda_core.fp32", 1.0) is not None


def test_more_than_the_theoretical_rate_is_the_fault_of_the_roofline() -> None:
    found = TOY.reading(1_000, 4_000_000, "tensor_core.bf16", 0.001)
    assert found is not None
    assert found.excess == "memory: 4e+09 a second, above 2e+09 in theory"


def test_profiles_that_ship_are_plausible() -> None:
    found = profiles()
    assert "NVIDIA H200" in found
    for profile in found.values():
        assert profile.source
        for rate in profile.rates.values():
            assert rate.theoretical > 1e9
            assert rate.calibration is None or 0.3 < rate.calibration < 1
    memory = found["NVIDIA H200"].rates["memory"].effective
    assert memory == pytest.approx(4.28e12, rel=1e-3)


def test_a_cpu_has_no_profile() -> None:
    assert profile_for(torch.device("cpu")) is None
