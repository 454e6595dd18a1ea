"""The time of single calls: events on a CUDA device whose L2 cache is cold, else the host's clock.

Samples are seconds, one per call. Nothing here knows what is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch

FLUSH_BYTES = 1 << 29
"""Written before each call: more than any L2 cache, and longer than the host takes to launch."""
LEAST, MOST = 3, 50
"""Calls that are timed, however slow or fast they are."""

Launch = Callable[[], None]


@dataclass(frozen=True)
class Timing:
    """What several calls took, in seconds: the median, the middle half's ends, how many."""

    median: float
    low: float
    high: float
    calls: int


def timing(samples: Sequence[float]) -> Timing:
    """Samples, at least two, as a median with its spread."""
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return Timing(median(samples), low, high, len(samples))


def timed(launch: Launch, device: torch.device, seconds: float) -> Timing:
    """Time calls for about so long, after one that warms up.

    Args:
        launch: makes one call.
        device: where it runs.
        seconds: how long to go on; at least `LEAST` calls are made, at most `MOST`.
    """
    measure = _events if device.type == "cuda" else _host
    launch()
    first = measure(launch, 1)[0]
    count = max(LEAST, min(MOST, int(seconds / max(first, 1e-9))))
    return timing(measure(launch, count))


def _host(launch: Launch, count: int) -> list[float]:
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        launch()
        samples.append(time.perf_counter() - start)
    return samples


def _events(launch: Launch, count: int) -> list[float]:
    """Device time; the cache is emptied before each call."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    pairs = []
    for _ in range(count):
        flush.zero_()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        launch()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1e3 for start, stop in pairs]
