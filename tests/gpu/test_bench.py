"""Workload rows on a CUDA device: judged there, timed by events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tileops.bench.clock import LEAST, timed
from tileops.bench.profiles import profile_for
from tileops.cli import main

pytestmark = pytest.mark.gpu


def test_rows_are_judged_and_timed_on_the_device(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    chosen = ("--rows", "llama-3.1-8b-prefill", "--dtype", "bfloat16")
    assert main(("bench", "RMSNormFwdOp", *chosen, "--device", "cuda", "--json", str(file))) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["state"] == "right"
    assert 0 < row["timing"]["low"] <= row["timing"]["median"] <= row["timing"]["high"]
    if profile_for(torch.device("cuda", 0)) is not None:
        assert 0 < row["reading"]["efficiency"] < 1.1
        assert row["reading"]["limit"] == "memory"


def test_events_time_the_device_not_the_host() -> None:
    cycles = 10_000_000
    found = timed(lambda: torch.cuda._sleep(cycles), torch.device("cuda"), 0.0)
    assert found.calls == LEAST
    assert found.median > cycles / 3e9
