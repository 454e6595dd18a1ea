"""Compares portable kernels with torch on one thread of a CPU, by ratios that noise leaves alone.

    python benchmarks/measure_cpu.py [OP …] [--family NAME] [--most MIB] [--limit X] [--out FILE]

What is compared with is that of `tileops bench --against torch`, judged by the same references. Of
the op its body is timed, with the kernel; the machinery around it has a budget of its own. Rows are
those of the specs in every one of float32, bfloat16 and float16 that the op has. Their extents are
doubled or halved until torch takes 0.2 to 1 ms, while a call moves 1 to `--most` MiB: longer calls
are seldom left in peace. Op and torch take turns, call by call. The ratio is that of the least
times, for what else runs on the machine only ever adds to a time. Rows near the limit are measured
for longer, and of one above it the median of the ratios of neighbouring calls counts where that is
lower, for a machine that is busy throughout blurs either. Memory that is given back is kept for the
next call: what the system takes to hand out pages would hide the work, and differs with the history
of the process. Not for absolute times.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from tileops._core.signature.analysis import Analysis
from tileops._core.spec import registry
from tileops._core.spec.model import Row
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops._core.workload.rows import RowReader
from tileops.bench.baselines import Rival, default_folder, load, rivals
from tileops.bench.calls import Function, RowCall, bytes_of, row_call
from tileops.bench.clock import Launch
from tileops.bench.patience import OutOfPatience, patience

CPU = torch.device("cpu")
DTYPES = ("float32", "bfloat16", "float16")
MIB = 1 << 20
LEAST = MIB
"""Bytes that a call moves at least."""
BRIEF, LONG = 2e-4, 1e-3
"""Seconds within which the time of Python shows, and after which others interrupt."""
CALLS = 15, 500
"""Calls of each contestant in one measurement, at least and at most."""


@dataclass(frozen=True)
class Found:
    """How many times as long as torch an op takes, or the reason why that is not known."""

    op: str
    case: str
    mib: float
    ours: float = 0.0
    torch: float = 0.0
    ratio: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        name = f"{self.op:34}{self.case:44}{self.mib:6.1f} MiB"
        if self.reason:
            return f"{name}  {self.reason}"
        return f"{name}{self.ours * 1e3:9.3f} ms{self.torch * 1e3:9.3f} ms  x {self.ratio:.2f}"


def cases(reader: RowReader, most: int) -> Iterator[Case]:
    """The rows of a spec in every dtype, none of them larger than so many bytes."""
    seen = set()
    for row in reader.spec.workloads:
        assert row is not None
        for dtypes in _dtypes(row):
            case = _case(reader, replace(row, dtype_cases=(dtypes,) if dtypes else ()), dtypes)
            while case is not None and bytes_of(case) > most:
                case = _resized(reader, case, 0.5)
            if case is not None and case.id not in seen and bytes_of(case) >= LEAST:
                seen.add(case.id)
                yield case


def _dtypes(row: Row) -> Iterator[dict[str, str]]:
    """The dtypes of a row, those of 16 and 32 bits exchanged for each other."""
    for dtypes in row.dtype_cases or ({},):
        yield dict(dtypes)
        for wanted in DTYPES:
            yield {name: wanted if dtype in DTYPES else dtype for name, dtype in dtypes.items()}


def _case(reader: RowReader, row: Row, dtypes: dict[str, str]) -> Case | None:
    """The case of a row, None where the op does not admit it."""
    try:
        setting = reader.setting(row)
        for fault in reader.key_faults(setting):
            raise fault
        return reader.instantiate(setting, dtypes)
    except RowFault:
        return None


def _resized(reader: RowReader, case: Case, factor: float) -> Case | None:
    """The same with an extent doubled or halved, the first that the op lets be."""
    row, size = case.setting.row, bytes_of(case)
    dtypes = dict(row.dtype_cases[0]) if row.dtype_cases else {}
    indices = {
        name: row.values[name] for name in reader.spec.signature.forall if name in row.values
    }
    for extent in dict.fromkeys(_extents(indices.values())):
        scaled = {name: _scaled(value, extent, factor) for name, value in indices.items()}
        found = _case(reader, replace(row, values={**row.values, **scaled}), dtypes)
        if extent * factor >= 1 and found is not None and bytes_of(found) != size:
            return found
    return None


def _extents(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield value
        elif isinstance(value, list | tuple):
            yield from _extents(value)


def _scaled(value: Any, extent: int, factor: float) -> Any:
    """An index with this extent scaled, once in each shape."""
    if value == extent:
        return int(extent * factor)
    if isinstance(value, list | tuple) and extent in value:
        place = list(value).index(extent)
        return [*value[:place], int(extent * factor), *value[place + 1 :]]
    return value


def compare(reader: RowReader, case: Case, rival: Rival, given: argparse.Namespace) -> Found | None:
    """The ratio of a case of other extents; None where torch has no such op."""
    found = Found(reader.spec.name, case.id, bytes_of(case) / MIB)
    try:
        with patience(60):
            if rival.function(row_call(reader.spec, case, CPU).op) is None:
                return None
            case = _of_fair_length(reader, case, rival, int(given.most * MIB))
            found = replace(found, mib=bytes_of(case) / MIB)
            call = row_call(reader.spec, case, CPU)
            functions = call.ours, _torch(rival, call)
            wanted = call.wanted()
            for name, function in zip(("op", "torch"), functions, strict=True):
                fault = call.fault(function, wanted)
                if fault is not None:
                    return replace(found, reason=f"{name} is wrong")
            launches = [call.launch(each, 1) for each in (call.op.forward, functions[1])]
            return _timed(found, launches, given.limit)
    except OutOfPatience:
        return replace(found, reason="takes too long")
    except NotImplementedError as error:
        return replace(found, reason=str(error))


def _torch(rival: Rival, call: RowCall) -> Function:
    function = rival.function(call.op)
    assert function is not None
    return function


def _of_fair_length(reader: RowReader, case: Case, rival: Rival, most: int) -> Case:
    """A case of other extents that takes torch neither too long nor too short a time."""
    before = None
    while True:
        call = row_call(reader.spec, case, CPU)
        taken = min(*_turns([call.launch(_torch(rival, call), 1)], 0)[0])
        factor = 0.5 if taken > LONG else 2 if taken < BRIEF else None
        if factor is None or before not in {None, factor}:
            return case
        found = _resized(reader, case, factor)
        if found is None or not LEAST <= bytes_of(found) <= most:
            return case
        case, before = found, factor


def _timed(found: Found, launches: Sequence[Launch], limit: float) -> Found:
    times: list[list[float]] = [[], []]
    for seconds in (0.1, 0.2, 0.4):
        for known, new in zip(times, _turns(launches, seconds), strict=True):
            known.extend(new)
        ours, other = map(min, times)
        if other < BRIEF / 2:
            return replace(found, reason=f"torch takes {other * 1e3:.3f} ms only")
        ratio = ours / other
        if ratio <= limit - 0.05:
            break
    if ratio > limit:
        ratio = min(ratio, median(a / b for a, b in zip(*times, strict=True)))
    return replace(found, ours=ours, torch=other, ratio=ratio)


def _turns(launches: Sequence[Launch], seconds: float) -> list[list[float]]:
    """The times of each, taken in turns."""
    found: list[list[float]] = [[] for _ in launches]
    begun = time.perf_counter()
    for turn in range(CALLS[1]):
        if turn >= CALLS[0] and time.perf_counter() - begun > seconds:
            break
        for times, launch in zip(found, launches, strict=True):
            start = time.perf_counter()
            launch(0)
            times.append(time.perf_counter() - start)
    return found


def _keep_memory() -> None:
    """Let the C library map no memory for single tensors, and give none back (glibc)."""
    for setting, value in ((-4, 0), (-1, (1 << 31) - 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
        ctypes.CDLL(None).mallopt(setting, value)


def main() -> int:
    """Print a line for each row; 1 where one is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--family")
    parser.add_argument("--label", action="append")
    parser.add_argument("--most", type=float, default=32.0)
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    _keep_memory()
    load(default_folder())
    (rival,) = rivals(["torch"], CPU)
    rows = []
    for name in given.ops or sorted(rival.functions):
        spec = registry.lookup(name)
        if spec is None or given.family not in {None, spec.family}:
            continue
        reader = RowReader(Analysis(spec))
        for case in cases(reader, int(given.most * MIB)):
            if given.label and case.setting.row.label not in given.label:
                continue
            found = compare(reader, case, rival, given)
            if found is not None:
                rows.append(found)
                print(found, flush=True)
    timed = [each for each in rows if not each.reason]
    above = [each for each in timed if each.ratio > given.limit]
    summary = f"{len(above)} of {len(timed)} above {given.limit:g}"
    print(summary)
    if given.out:
        given.out.write_text("\n".join([*map(str, rows), summary, ""]), encoding="utf-8")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
