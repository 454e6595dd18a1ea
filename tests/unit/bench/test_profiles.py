"""Times beside the limits of a device, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tileops.bench import ceilings as bench_ceilings
from tileops.bench.ceilings import write_profile
from tileops.bench.profiles import (
    ProfileFault,
    measured_file,
    profile_for,
    profile_named,
    profile_of,
    profiles,
)


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No profile of this machine."""
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    return tmp_path


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
    assert {"NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"} <= found.keys()
    for profile in found.values():
        assert profile.source
        for rate in profile.rates.values():
            assert rate.theoretical is not None
            assert rate.theoretical > 1e9
            assert rate.effective is None or 0.3 < rate.effective / rate.theoretical < 1
    memory = found["NVIDIA H200"].rates["memory"].effective
    assert memory == pytest.approx(4.28e12, rel=1e-3)


def test_a_device_that_nobody_measured_has_no_profile(own_cache: Path) -> None:
    assert profile_for(torch.device("cpu")) is None


def test_what_was_measured_here_comes_first(own_cache: Path) -> None:
    rates = {"memory": 2.5e9, "cuda_core.fp32": 3.5e9, "tensor_core.bf16": 4.5e9}
    file = write_profile(torch.device("cpu"), rates)
    assert file.is_relative_to(own_cache)
    found = profile_for(torch.device("cpu"))
    assert found is not None
    assert {name: rate.effective for name, rate in found.rates.items()} == pytest.approx(rates)
    assert {rate.theoretical for rate in found.rates.values()} == {None}
    reading = found.reading(1_000, 2_500_000, "cuda_core.fp32", 0.002)
    assert reading is not None
    assert (reading.efficiency, reading.excess) == (pytest.approx(0.5), None)
    measured_file("NVIDIA H200").write_text(file.read_text())
    replaced = profile_named("NVIDIA H200")
    assert replaced is not None
    assert replaced.rates["memory"].effective == 2.5e9


def test_copies_and_products_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_ceilings, "COPIED", {"cpu": 1 << 20})
    monkeypatch.setattr(bench_ceilings, "EDGE", {"cpu": 64})
    precision = torch.get_float32_matmul_precision()
    found = bench_ceilings.ceilings(torch.device("cpu"))
    assert found.keys() >= {"memory", "tensor_core.bf16", "cuda_core.fp32"}
    assert min(found.values()) > 1e6
    products = {name: rate for name, rate in found.items() if name != "memory"}
    assert min(products.values()) == found["cuda_core.fp32"]  # operands may be widened
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no profile of a device: 'NoneType' object is not subscriptable"),
        ("[1, 2", "no profile of a device: line "),
        ("device: x", "no profile of a device: 'memory' is missing"),
        ("{device: x, memory: {measured: 1}}", "no profile of a device: 'source' is missing"),
        ("{memory: {calibration: 0.5}}", "no profile of a device: 'measured' is missing"),
        ("{memory: {measured: much}}", "no profile of a device: '<' not supported"),
        ("{memory: {measured: 0}}", "no profile of a device: 0 is no rate"),
        ("{memory: {theoretical: 2, calibration: -1}}", "no profile of a device: -2 is no rate"),
        ("{memory: 3}", "no profile of a device: 'int' object has no attribute 'get'"),
    ],
)
def test_a_damaged_profile_is_told_with_its_file(own_cache: Path, text: str, message: str) -> None:
    file = measured_file("NVIDIA H200")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ProfileFault) as caught:
        profile_named("NVIDIA H200")
    assert str(caught.value).startswith(f"{file}: {message}")
    assert str(caught.value).endswith("; `tileops doctor --measure` writes it anew")
