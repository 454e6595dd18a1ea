"""Medians with their spread, how many calls are timed, and in which order."""

from __future__ import annotations

import time

import torch

from tileops.bench.clock import LEAST, MOST, ROUNDS, Laps, host_timing, race, timing

CPU = torch.device("cpu")


def test_the_spread_is_the_middle_half() -> None:
    found = timing([5.0, 1.0, 2.0, 3.0, 4.0])
    assert not found.is_unsteady, "from 2 to 4"
    assert timing([1.0, 1.0, 3.0, 3.0]).is_unsteady
    assert (found.median, found.low, found.high, found.calls) == (3.0, 2.0, 4.0, 5)


def test_slow_calls_are_few() -> None:
    turns: list[int] = []

    def launch(turn: int) -> None:
        turns.append(turn)
        time.sleep(0.01)

    found = race({"slow": launch}, CPU, 0.0)["slow"]
    assert found.calls == LEAST
    assert turns == [0, 0, *range(LEAST)], "one warms up, one tells how many"
    assert found.low >= 0.01


def test_fast_calls_are_not_too_many() -> None:
    assert race({"fast": lambda turn: None}, CPU, 1.0)["fast"].calls == MOST


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    launches = {name: lambda turn, name=name: calls.append(name) for name in "ab"}
    race(launches, CPU, 1.0)
    timed = calls[4:]
    share = MOST // ROUNDS
    assert timed == [*"a" * share, *"b" * share] * ROUNDS


def test_a_call_that_ends_on_the_host_has_no_time_beside_it() -> None:
    assert host_timing(lambda turn: None, CPU) is None


def test_calls_are_timed_where_they_are_made() -> None:
    laps = Laps(CPU)
    assert laps.call(max, 3, 5) == 5
    laps.call(time.sleep, 0.01)
    first, second = laps.seconds()
    assert first < 0.01 <= second
