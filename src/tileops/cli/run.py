"""Run an op's workload rows: judge the numbers, then show what each call was and what it took.

The data are those of the row, the same in every run. Results are compared with the op's reference
within the tolerance of their dtype. A row that does not fit into memory is left out. Rows may be
large and take long: --row chooses some, --dtype those of one dtype. --shape and --param describe a
call of your own instead, as `tileops explain` takes it. A dtype that is not given is then float32
on a CPU where that is admitted, else that of the smallest row.

  tileops run RMSNormFwdOp --row llama-3.1-8b-decode --dtype bfloat16
  tileops run RMSNormFwdOp --param 'normalized_shape=[64]' --shape x=8x64 --dtype bfloat16
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops.cli.described import Wishes
from tileops.cli.nearest import nearest
from tileops.cli.options import add_call, add_device, add_json, add_op, add_rows, add_target
from tileops.cli.output import Style, UsageFault, painted, print_json
from tileops.cli.own_call import own_case
from tileops.cli.progress import progress
from tileops.cli.specs import (
    class_of,
    device_named,
    row_labels,
    spec_named,
    table_of,
    usable_target,
)

if TYPE_CHECKING:
    import torch

    from tileops.bench.clock import Timing
    from tileops.bench.measuring import RowRecord


_MILLIS = 0.01  # seconds from which a time is told in milliseconds
_LONG = 40
"""Characters of a reason beyond which it is not repeated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_op(parser)
    add_rows(parser)
    add_call(parser)
    add_device(parser)
    add_target(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a record per case; 1 when one is wrong or none could be run."""
    from tileops.bench.measuring import RIGHT, WRONG, Manner
    from tileops.bench.sweep import RowCase, Sweep

    spec = spec_named(args.op)
    device = device_named(args.device)
    records, tally = [], Tally()
    wishes = Wishes(args.shape, args.dtype, args.param, args.rows)
    rows = [RowCase(spec, case) for case in _cases(spec, wishes, device)]
    sweep = Sweep(rows, device, Manner(target=usable_target(args.target)))
    reasons = Reasons()
    if not args.json:
        print(f"{len(rows)} rows; --row chooses" if len(rows) > 1 else "1 row", flush=True)
    try:
        with progress(len(rows), silent=args.json) as told:
            for record in sweep:
                records.append(record)
                tally.add(record)
                told.advance("\n".join(_lines(record, reasons)))
    except KeyboardInterrupt:
        _answer(records, tally, device, as_json=args.json)
        raise
    _answer(records, tally, device, as_json=args.json)
    return 1 if tally.states[WRONG] or not tally.states[RIGHT] else 0


def _answer(
    records: Sequence[RowRecord], tally: Tally, device: torch.device, *, as_json: bool
) -> None:
    """Print what was found: as data, or what it came to."""
    if as_json:
        print_json([record.data() for record in records])
    else:
        tally.tell(device)


def _cases(spec: OpSpec, wishes: Wishes, device: torch.device) -> list[Case]:
    """The call that was described, else the cases that were asked for, at least one.

    Raises:
        UsageFault: there is none, or the op has no class, an unusable row, or kernels that
            contradict each other.
        SignatureError: the op refuses the call.
    """
    from tileops.bench.sweep import chosen_cases

    table_of(class_of(spec))
    if wishes.is_own:
        return [own_case(spec, wishes, device)]
    try:
        missing = [label for label in wishes.rows or () if not chosen_cases(spec, [label])]
        labels = missing or wishes.rows
        found = [case for case in chosen_cases(spec, labels) if wishes.admit(case)]
        known = [case.id for case in chosen_cases(spec)] if not found else []
    except RowFault as fault:
        raise UsageFault(f"{spec.name}: {fault}") from fault
    if not found:
        rows = f"row {' or '.join(labels)}" if labels else None
        asked = " and ".join(filter(None, (rows, *(f"dtype {each}" for each in wishes.dtypes))))
        of_that = f" of {asked}" if asked else ""
        meant = nearest(labels[0], [*row_labels(spec), *known]) if labels else ""
        hint = meant or f"; known: {', '.join(known) or 'none'}"
        raise UsageFault(f"{spec.name} has no case{of_that}{hint}")
    return found


class Reasons:
    """Why rows were not measured: what many have in common, as a builder's fault, is said once."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def text(self, record: RowRecord) -> str:
        """The reason of a row; a long one is told once, then by the row that had it first."""
        reason, row = record.reason or "", f"{record.op} {record.case}"
        first = self._first.setdefault(reason, row)
        if first != row and len(reason) > _LONG:
            return f"for the reason of {first}"
        return reason.replace("\n", "\n    ")


class Tally:
    """What rows came to, told at the end.

    Attributes:
        states: how many came to which state.
        unsteady: how many have times that say little.
    """

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.unsteady = 0

    def add(self, record: RowRecord) -> None:
        """Count a row."""
        self.states[record.state] += 1
        self.unsteady += record.is_unsteady

    def tell(self, device: torch.device) -> None:
        """Print the counts, and how the limits of the device are found where they are unknown."""
        from tileops.bench.profiles import unknown_limits

        shown = ("right", "wrong", "left out")
        print(", ".join(f"{self.states[state]} {state}" for state in shown), flush=True)
        if self.unsteady:
            print(f"{self.unsteady} unsteady: the middle half of a time is spread more than 2-fold")
        hint = unknown_limits(device) if self.states["right"] else None
        if hint:
            print(hint, file=sys.stderr)


def _lines(record: RowRecord, reasons: Reasons) -> Iterator[str]:
    """A record for people."""
    reason = f": {reasons.text(record)}" if record.reason else ""
    yield f"{record.op} {record.case} on {record.device}: {state_text(record.state)}{reason}"
    if record.bindings:
        yield f"  bindings  {_pairs(record.bindings)}"
    if record.tensors:
        yield f"  tensors   {_pairs(record.tensors)}"
    if record.flops is not None and record.bytes is not None:
        yield f"  work      {record.flops:,} flops, {record.bytes:,} bytes"
    if record.bindings is not None:  # a call was made
        kernels = ", ".join(record.kernels) or "what the target built"
        yield f"  served    by {kernels} ({record.target})"
    if record.timing is not None:
        yield f"  time      {time_text(record.timing)}{limit_text(record)}"


def state_text(state: str) -> str:
    """The state of a row in its colour."""
    colours: dict[str, Style] = {"right": "green", "wrong": "red"}
    return painted(state, colours.get(state, "yellow"))


def _pairs(named: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in named.items())


def time_text(timing: Timing) -> str:
    """A median with its spread; marked where the spread says not to trust it."""
    unit, each = ("ms", 1e3) if timing.median >= _MILLIS else ("us", 1e6)
    low, middle, high = (seconds * each for seconds in (timing.low, timing.median, timing.high))
    mark = ", unsteady" if timing.is_unsteady else ""
    return f"{middle:,.1f} {unit} ({low:,.1f} to {high:,.1f}, {timing.calls} calls{mark})"


def limit_text(record: RowRecord) -> str:
    """The fraction of the device's limit; nothing where that is not known."""
    from tileops.bench.profiles import doubt, unit_text

    reading = record.reading
    if reading is None:
        return ""
    unit = unit_text(reading.limit, record.device)
    share = f", {reading.efficiency:.0%} of the {unit} limit"
    return "; ".join(filter(None, (share, doubt(reading.efficiency, reading.excess))))
