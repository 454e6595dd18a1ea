"""Workload rows on a CUDA device: judged there, timed by events, beside another library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tileops.bench.clock import LEAST, Laps, captured, event_gap, host_timing, race
from tileops.bench.profiles import profile_for
from tileops.cli import main

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")
CYCLES = 10_000_000


def test_rows_are_judged_and_timed_on_the_device(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    chosen = ("--row", "llama-3.1-8b-prefill", "--dtype", "bfloat16", "--device", "cuda")
    against = ("--against", "torch", "--graph", "--json", str(file))
    assert main(("bench", "RMSNormFwdOp", *chosen, *against)) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["state"] == "right"
    for timing in (row["timing"], row["host"], row["graph"], row["others"][0]["graph"]):
        assert 0 < timing["low"] <= timing["median"] <= timing["high"]
    if profile_for(torch.device("cuda", 0)) is not None:
        assert 0 < row["reading"]["efficiency"] < 1.1
        assert row["reading"]["limit"] == "memory"


def test_events_time_the_device_not_the_host() -> None:
    found = race({"sleep": lambda turn: torch.cuda._sleep(CYCLES)}, CUDA, 0.0)["sleep"]
    assert found.calls == LEAST
    assert found.median > CYCLES / 3e9


def test_what_events_show_beside_a_kernel_is_taken_off() -> None:
    one = torch.zeros(1, device="cuda")
    assert 0 < event_gap() < 1e-5
    assert 0 < race({"add": lambda turn: one.add_(1)}, CUDA, 0.01)["add"].median < 3e-6


def test_the_host_is_not_busy_while_the_device_sleeps() -> None:
    found = host_timing(lambda turn: torch.cuda._sleep(CYCLES), CUDA)
    assert found is not None
    assert found.median < CYCLES / 3e9


def test_a_graph_replays_the_call_of_its_turn() -> None:
    seen = torch.zeros(2, device="cuda")

    def launch(turn: int) -> None:
        seen[turn] += 1

    replay = captured(launch, 2)
    before = seen.clone()
    for turn in (0, 1, 3):
        replay(turn)
    assert (seen - before).tolist() == [1.0, 2.0]


def test_laps_run_by_the_device() -> None:
    laps = Laps(CUDA)
    for _ in range(2):
        laps.call(torch.cuda._sleep, CYCLES)
    assert min(laps.seconds()) > CYCLES / 3e9
