"""Times single calls of contestants in turns: by events on a CUDA device, else by the host's clock.

On CUDA each call meets a cold L2 cache, and the gap that two events show beside the work between
them is subtracted, so that a call of one kernel takes what its kernel takes. A launch is given the
number of its turn, so that it can rotate its inputs. Samples are seconds, one per call, all above
0. Nothing here knows what is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median, quantiles
from typing import Any, TypeVar

import torch

FLUSH_BYTES = 1 << 30
"""Written before each call: more than any L2 cache, and longer than the host takes to launch."""
LEAST, MOST = 3, 50
"""Calls that are timed, however slow or fast they are."""
RESOLUTION = 5e-7
"""Seconds that events can tell apart: a call that shows less took at most so long."""
UNSTEADY = 2.0
"""Where the middle half is spread by more than this factor, the median says little."""
ROUNDS = 5
"""How often contestants take turns, so that a device that slows down slows all of them."""

Result = TypeVar("Result")
Launch = Callable[[int], Any]
"""Makes the call of a turn."""


@dataclass(frozen=True)
class Timing:
    """What several calls took, in seconds: the median, the quartiles, and how many there were."""

    median: float
    low: float
    high: float
    calls: int

    @property
    def is_unsteady(self) -> bool:
        """Whether the middle half is too wide for the median to say much."""
        return is_spread(self.low, self.high)


def is_spread(low: float, high: float) -> bool:
    """Whether the ends of a middle half are too far from each other."""
    return high > UNSTEADY * low


def timing(found: Sequence[float]) -> Timing:
    """Samples, at least two, as a median with its spread."""
    low, _, high = quantiles(found, n=4, method="inclusive")
    return Timing(median(found), low, high, len(found))


def race(launches: Mapping[str, Launch], device: torch.device, seconds: float) -> dict[str, Timing]:
    """Time the calls of contestants in turns, after one of each that warms up.

    Args:
        launches: make one call each, by the contestant's name.
        device: where they run.
        seconds: how long to go on with each; at least `LEAST` calls are made, at most `MOST`.
    """
    counts: dict[str, int] = {}
    for name, launch in launches.items():
        launch(0)
        first = samples(launch, range(1), device)[0]
        counts[name] = max(LEAST, min(MOST, int(seconds / max(first, 1e-9))))
    found: dict[str, list[float]] = {name: [] for name in launches}
    for turn in range(ROUNDS):
        for name, launch in launches.items():
            ends = (counts[name] * part // ROUNDS for part in (turn, turn + 1))
            found[name] += samples(launch, range(*ends), device)
    return {name: timing(each) for name, each in found.items()}


def samples(launch: Launch, turns: Sequence[int], device: torch.device) -> list[float]:
    """The seconds that the calls of some turns take, one by one.

    Args:
        launch: makes one call.
        turns: which calls.
        device: where they run.
    """
    return _events(launch, turns) if device.type == "cuda" else _host(launch, turns)


class Laps:
    """The time of calls where a program makes them, one after the other.

    The cache is as the calls before left it, and the host waits for nothing: on CUDA the device's
    clock runs from the start of a call to its end.

    Args:
        device: where the calls run.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds: list[float] = []
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """What a function returns; the call is timed."""
        if not self._cuda:
            start = time.perf_counter()
            result = function(*args)
            self._seconds.append(time.perf_counter() - start)
            return result
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        result = function(*args)
        last.record()
        self._pairs.append((first, last))
        return result

    def seconds(self) -> list[float]:
        """What each call took; waits for the device."""
        if self._pairs:
            self._pairs[-1][1].synchronize()
        return self._seconds + [first.elapsed_time(last) / 1e3 for first, last in self._pairs]


def host_timing(launch: Launch, device: torch.device) -> Timing | None:
    """How long the host is busy with a call; None where the call ends on the host anyway."""
    if device.type != "cuda":
        return None
    launch(0)
    torch.cuda.synchronize(device)
    found = timing(_host(launch, range(MOST)))
    torch.cuda.synchronize(device)
    return found


def captured(launch: Launch, turns: int) -> Launch:
    """The calls of `turns` turns as CUDA graphs, which are replayed without the host's part.

    Args:
        launch: makes a call; raises where it cannot be captured.
        turns: after how many turns the calls repeat.
    """
    graphs = [_graph(launch, turn) for turn in range(turns)]
    return lambda turn: graphs[turn % turns].replay()


def _graph(launch: Launch, turn: int) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch(turn)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(turn)
    return graph


def _host(launch: Launch, turns: Sequence[int]) -> list[float]:
    found = []
    for turn in turns:
        start = time.perf_counter()
        launch(turn)
        found.append(time.perf_counter() - start)
    return found


@cache
def event_gap() -> float:
    """The seconds that two events show more than the one kernel between them takes.

    How long the kernel takes is read from the device's own records of its kernels (CUPTI, through
    torch's profiler); 0 where there are no such records.
    """
    one = torch.zeros(1, device="cuda")

    def launch(turn: int) -> None:
        one.add_(1)

    shown = _between_events(launch, range(MOST))
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        _between_events(launch, range(MOST))
    times = [
        event.time_range.elapsed_us() / 1e6
        for event in profile.events() or ()
        if event.device_type == torch.profiler.DeviceType.CUDA
    ]
    kernels = [each for each in times if each < max(times) / 10]  # the others emptied the cache
    return max(0.0, median(shown) - median(kernels)) if kernels else 0.0


def _events(launch: Launch, turns: Sequence[int]) -> list[float]:
    """Device time, by events."""
    gap = event_gap()
    return [max(shown - gap, RESOLUTION) for shown in _between_events(launch, turns)]


def _between_events(launch: Launch, turns: Sequence[int]) -> list[float]:
    """What events before and after each call show; the cache is emptied before it."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    pairs = []
    for turn in turns:
        flush.zero_()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        launch(turn)
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1e3 for start, stop in pairs]
