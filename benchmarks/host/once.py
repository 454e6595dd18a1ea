"""What is paid once: imports, constructions, first calls; and what stays in memory."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import weakref

import torch
from clock import least

from tileops._core.op.kinds import MOST_KINDS
from tileops.norm import RMSNormFwdOp

_PROBE = """
import os, sys, time
{before}
def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
held, start = resident(), time.process_time()
{statement}
print(time.process_time() - start, resident() - held)
"""

_COUNTER = """
import sys
{before}
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
{statement}
sys.setprofile(None)
print(calls)
"""


def imported(statement: str, before: str = "") -> tuple[float, float]:
    """Milliseconds of the processor and megabytes that a statement takes in a new process.

    The least of some runs, from compiled modules.
    """
    texts = _printed(_PROBE.format(statement=statement, before=before), 4)
    seconds, held = zip(*(map(float, text.split()) for text in texts), strict=True)
    return min(seconds) * 1e3, min(held) / 2**20


def import_calls(statement: str, before: str = "") -> int:
    """Function calls that a statement makes in a new process, from compiled modules."""
    *_, last = _printed(_COUNTER.format(statement=statement, before=before), 2)
    return int(last)


def _printed(program: str, runs: int) -> list[str]:
    """What some runs of a program print; the first of them compiles its modules."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", program]
        return [
            subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            ).stdout
            for _ in range(runs)
        ]


def constructed(count: int = 2000) -> float:
    """Microseconds of a construction when the class has instances; the least of many."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        RMSNormFwdOp((64,))
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def first_called(device: str, count: int = 400) -> tuple[float, float]:
    """Microseconds of the first and the second call of a shape whose entry is there: medians."""
    op, weight = RMSNormFwdOp((64,)), torch.ones(64, device=device)
    op(torch.ones(1, 64, device=device), weight)
    first, second = [], []
    for rows in range(2, count + 2):
        x = torch.ones(rows, 64, device=device)
        for times in (first, second):
            start = time.perf_counter()
            op(x, weight)
            times.append(time.perf_counter() - start)
    return statistics.median(first) * 1e6, statistics.median(second) * 1e6


def instance_bytes(count: int = 500) -> float:
    """Bytes that an instance takes before its first call."""
    kept = [RMSNormFwdOp((64,))]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept += [RMSNormFwdOp((64,)) for _ in range(count)]
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken / count


def blocks_left(calls: int, shapes: int = 1000) -> int:
    """Memory blocks that some calls over some shapes leave, after each shape has been called."""
    op, weight = RMSNormFwdOp((8,)), torch.ones(8)
    tensors = [torch.ones(rows, 8) for rows in range(1, shapes + 1)]

    def turn() -> int:
        for x in tensors:
            op(x, weight)
        gc.collect()
        return sys.getallocatedblocks()

    turn()
    before = turn()
    for _ in range(max(calls // shapes - 1, 1)):
        for x in tensors:
            op(x, weight)
    return turn() - before


def after_many_shapes(shapes: int = 10_000) -> tuple[int, float]:
    """How many kinds are remembered after so many, and a warm call's time over one before."""
    few, many, weight = RMSNormFwdOp((8,)), RMSNormFwdOp((8,)), torch.ones(8)
    for rows in range(1, shapes + 1):
        many(torch.ones(rows, 8), weight)
    x = torch.ones(4, 8)
    times = least({"few": lambda: few(x, weight), "many": lambda: many(x, weight)}, 300)
    assert len(many._known_calls) <= MOST_KINDS
    return len(many._known_calls), times["many"] / times["few"]


def keeps_tensors() -> bool:
    """Whether a call leaves a reference to a tensor of its caller."""
    op = RMSNormFwdOp((8,))
    kept = []
    for _ in range(3):
        x, weight = torch.ones(2, 8), torch.ones(8)
        y = op(x, weight)
        kept += [weakref.ref(tensor) for tensor in (x, weight, y)]
        del x, weight, y
    return any(reference() is not None for reference in kept)
