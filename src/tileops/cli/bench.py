"""Time workload rows of many ops: each is judged by its reference first, what is wrong not timed.

Rows that move little come first. A time is the median of several calls with the ends of its
middle half: on CUDA device time with a cold L2 cache, else the host's clock. Where the limits of
the device are known, the fraction of them that the call reached is shown.

  tileops bench --family norm --device cuda --budget 60 --json norm.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileops._core.spec import registry
from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops.cli.output import UsageFault
from tileops.cli.run import limit_text, time_text
from tileops.cli.specs import class_of, spec_named

if TYPE_CHECKING:
    from tileops.bench.measuring import RowRecord

NAME = "bench"
SUMMARY = "time workload rows that are right"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "ops", nargs="*", metavar="OP", help="ops; all that are implemented if none"
    )
    parser.add_argument("--family", help="only ops of this family")
    parser.add_argument("--rows", nargs="+", metavar="LABEL", help="only rows of these labels")
    parser.add_argument("--device", default="cpu", help="where to run: cpu (default) or cuda")
    parser.add_argument("--dtype", help="only cases in which a tensor has this dtype")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="begin no further row after this time, counted from the first",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records to a file")


def run(args: argparse.Namespace) -> int:
    """Print a line per row and a summary; 1 when one is wrong or none could be run."""
    from tileops._core.devices import usable_device
    from tileops.bench.environment import environment
    from tileops.bench.measuring import LEFT_OUT, RIGHT, WRONG
    from tileops.bench.sweep import sweep

    device = usable_device(args.device)
    chosen = _rows(_specs(args.ops, args.family), args.rows, args.dtype)
    report: dict[str, Any] = {"environment": environment(device), "rows": []}
    _write(args.json, report)
    states: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for record in sweep(chosen, device, args.budget):
        states[record.state] += 1
        report["rows"].append(record.data())
        if record.state == LEFT_OUT:
            reasons[str(record.reason)] += 1
            continue
        print(_line(record), flush=True)
        _write(args.json, report)
    _write(args.json, report)
    print(", ".join(f"{states[state]} {state}" for state in (RIGHT, WRONG, LEFT_OUT)))
    for reason, count in reasons.items():
        print(f"left out {count}: {reason}")
    return 1 if states[WRONG] or not states[RIGHT] else 0


def _specs(names: Sequence[str], family: str | None) -> list[OpSpec]:
    """The ops that were asked for, at least one."""
    named = [spec_named(name) for name in names or sorted(registry.specs())]
    found = [
        spec
        for spec in named
        if family in (None, spec.family) and (names or spec.status == "implemented")
    ]
    if not found:
        raise UsageFault(f"no implemented op is of family {family}")
    for spec in found:
        class_of(spec)
    return found


def _rows(
    specs: Sequence[OpSpec], labels: Sequence[str] | None, dtype: str | None
) -> list[tuple[OpSpec, Case]]:
    """The cases that were asked for, at least one."""
    found = [pair for spec in specs for pair in _rows_of(spec, labels, dtype)]
    if not found:
        raise UsageFault("no workload row is of these labels and dtype")
    return found


def _rows_of(
    spec: OpSpec, labels: Sequence[str] | None, dtype: str | None
) -> Iterator[tuple[OpSpec, Case]]:
    from tileops.bench.sweep import chosen_cases

    try:
        for case in chosen_cases(spec, labels, dtype):
            yield spec, case
    except RowFault as fault:
        raise UsageFault(f"{spec.name}: {fault}") from fault


def _line(record: RowRecord) -> str:
    """A row that ran, for people."""
    name = f"{record.op} {record.case}"
    if record.timing is None:
        return f"{name}: {record.state}: {record.reason}"
    limit = limit_text(record.reading)
    return f"{name}: {time_text(record.timing)}{limit}, by {', '.join(record.kernels)}"


def _write(file: Path | None, report: dict[str, Any]) -> None:
    """Keep what was found so far, so that an interrupted run has its records."""
    if file is None:
        return
    try:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageFault(f"--json {file}: {error.strerror}") from error
