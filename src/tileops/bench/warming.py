"""Compiling what rows need, several at once in processes of their own, before they are timed.

The processes fill the caches on disk that the compilers keep, `TILELANG_CACHE_DIR` and
`TORCHINDUCTOR_CACHE_DIR`; while rows are timed they are idle. What fails here fails again where the
row is measured, and is said there.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from pathlib import Path

import torch

from tileops._core.spec.registry import lookup
from tileops._core.workload.cases import Case
from tileops.backend import BUILTIN
from tileops.bench.calls import bytes_of, row_call
from tileops.bench.sweep import RowCase

LARGEST = 1 << 30
"""Bytes of a row above which no process of its own makes its data."""
ROWS_PER_JOB = 4
"""Rows that a process compiles before the timing of all begins."""


def warmed(
    rows: Iterable[RowCase],
    device: torch.device,
    against: Sequence[str],
    folder: Path,
    jobs: int,
    target: str | None = None,
) -> Iterator[RowCase]:
    """The rows, each after what it needs was compiled.

    Args:
        rows: what will be measured.
        device: where.
        against: names of the libraries that are compared with.
        folder: where their functions lie.
        jobs: how many processes compile; no more than there are processors.
        target: what serves the ops; the device decides where absent.
    """
    waiting, jobs = iter(rows), min(jobs, os.cpu_count() or 1)
    pool = _pool(jobs)
    try:
        while chunk := list(islice(waiting, jobs * ROWS_PER_JOB)):
            tasks = [
                (row.spec.name, row.case, str(device), tuple(against), folder, target)
                for row in chunk
                if bytes_of(row.case) <= LARGEST
            ]
            try:
                list(pool.map(_compile, tasks))
            except BrokenProcessPool:  # one that crashed takes the others with it
                pool = _pool(jobs)
            yield from chunk
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _compile(task: tuple[str, Case, str, tuple[str, ...], Path, str | None]) -> None:
    """Call an op and what it is compared with once."""
    from tileops.bench.baselines import load, rivals

    op, case, device_name, against, folder, target = task
    device, spec = torch.device(device_name), lookup(op)
    assert spec is not None
    with suppress(Exception):
        call = row_call(spec, case, device, target)
        call.launch(call.ours, 1)(0)
        if set(against) - {BUILTIN}:
            load(folder)
        for rival in rivals(against, device):
            function = rival.function(call.op) if rival.compiled else None
            if function is not None:
                with suppress(Exception):
                    call.launch(function, 1)(0)
    torch.compiler.reset()
    if device.type == "cuda":
        torch.cuda.empty_cache()
