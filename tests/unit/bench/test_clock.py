"""Medians with their spread, and how many calls are timed."""

from __future__ import annotations

import time

import torch

from tileops.bench.clock import LEAST, MOST, timed, timing

CPU = torch.device("cpu")


def test_the_spread_is_the_middle_half() -> None:
    found = timing([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.median, found.low, found.high, found.calls) == (3.0, 2.0, 4.0, 5)


def test_slow_calls_are_few() -> None:
    calls: list[None] = []

    def launch() -> None:
        calls.append(None)
        time.sleep(0.01)

    found = timed(launch, CPU, 0.0)
    assert found.calls == LEAST
    assert len(calls) == LEAST + 2, "one warms up, one tells how many"
    assert found.low >= 0.01


def test_fast_calls_are_not_too_many() -> None:
    assert timed(lambda: None, CPU, 1.0).calls == MOST
