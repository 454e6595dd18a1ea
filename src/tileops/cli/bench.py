"""Time workload rows of many ops: each is judged by its reference first, what is wrong not timed.

Each op's smallest row comes first, then the second of each, so that a budget sees many ops. A time
is the median of several calls with the ends of its middle half: on CUDA device time with a cold L2
cache and inputs in rotation, else the host's clock. Where the limits of the device are known, the
fraction of them that the call reached is shown.

--against NAME,... times other libraries in turns with the op, each judged by the same reference;
torch-compile is the compiled form of what torch is. Their functions lie in benchmarks/baselines/.
--published TIMES.csv times the calls of a record of published times in place of workload rows.

  tileops bench --family norm --device cuda --budget 60 --json norm.json --against torch,liger
  tileops bench --family norm --device cuda --json norm.json --resume
  tileops bench --check norm.json --device cuda
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from tileops._core.spec.model import OpSpec
from tileops._core.workload.faults import RowFault
from tileops.cli.bench_check import Check
from tileops.cli.options import (
    SOME,
    add_device,
    add_dtype,
    add_family,
    add_rows,
    add_target,
    at_least,
    names,
)
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import progress
from tileops.cli.run import Reasons, Tally, limit_text, state_text, time_text
from tileops.cli.specs import (
    all_specs,
    class_of,
    device_named,
    spec_named,
    table_of,
    unknown,
    usable_target,
)

if TYPE_CHECKING:
    from tileops.bench.measuring import OtherRecord, RowRecord
    from tileops.bench.peer_rows import PublishedRows
    from tileops.bench.ratios import Verdict
    from tileops.bench.results import Results
    from tileops.bench.session import Order, Session
    from tileops.bench.sweep import Rows


_PRINTED = Path("-")
"""The file of `--json` where none is named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "ops",
        nargs="*",
        metavar="OP",
        help="ops; if none, those of the file of --check, else all that are implemented",
    )
    _add_choice(parser.add_argument_group("which rows"))
    _add_manner(parser.add_argument_group("how they are timed"))
    _add_keeping(parser.add_argument_group("what is kept"))


def _add_choice(which: argparse._ArgumentGroup) -> None:
    add_family(which)
    which.add_argument(
        "--tilelang", action="store_true", help="only ops that have a TileLang kernel"
    )
    add_rows(which)
    add_dtype(which)
    which.add_argument(
        "--published",
        type=Path,
        metavar="TIMES.csv",
        help="the rows of a record of published times, in place of workload rows",
    )
    which.add_argument(
        "--mapping", type=Path, metavar="FILE.yaml", help="how its ops and sizes map to ours"
    )
    which.add_argument(
        "--budget",
        type=at_least(float, 0),
        metavar="SECONDS",
        help="stop after this time, counted from the first row; one that is begun by then is "
        "measured another time",
    )
    which.add_argument(
        "--largest", action="store_true", help="each op's largest row first, not its smallest"
    )
    which.add_argument(
        "--patience",
        type=at_least(float, SOME),
        metavar="SECONDS",
        help="leave out a row whose judging and timing takes longer",
    )


def _add_manner(how: argparse._ArgumentGroup) -> None:
    add_device(how)
    add_target(how)
    how.add_argument(
        "--against",
        type=names,
        metavar="NAME,...",
        help="compare with these libraries; by default with those of the file of --check",
    )
    how.add_argument(
        "--baselines", type=Path, metavar="FOLDER", help="where functions to compare with lie"
    )
    how.add_argument("--graph", action="store_true", help="time CUDA graphs of the calls too")
    how.add_argument(
        "--jobs",
        type=at_least(int, 0),
        default=0,
        metavar="N",
        help="compile in N processes before timing, at most one for each processor",
    )
    how.add_argument(
        "--seconds",
        type=at_least(float, 0),
        metavar="SECONDS",
        help="how long each is timed; 1 by default",
    )


def _add_keeping(kept: argparse._ArgumentGroup) -> None:
    kept.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=_PRINTED,
        metavar="FILE.json",
        help="write the results to a file; without one print them, and the rest as errors are",
    )
    kept.add_argument("--junit", type=Path, metavar="FILE", help="write them as JUnit XML too")
    kept.add_argument(
        "--resume", action="store_true", help="keep the file's rows and measure the others"
    )
    kept.add_argument("--commit", help="the commit that is measured; by default git is asked")
    kept.add_argument(
        "--check",
        type=Path,
        metavar="BASELINE.json",
        help="fail when an op fell behind what it is compared with since these results, or one of "
        "their rows cannot be judged; where no --row is given, their rows are measured",
    )
    kept.add_argument(
        "--tolerance",
        type=at_least(float, 0, below=1),
        metavar="SHARE",
        help="the share by which --check lets a ratio fall; 0.1 by default",
    )


def run(args: argparse.Namespace) -> int:
    """Print a line per row and a summary; 1 when one is wrong or fell behind, or none is right."""
    from tileops.bench.results import Results

    if args.json is None:
        return _run(args, Results(), None)
    if args.json == _PRINTED:
        results = Results()
        try:
            with redirect_stdout(sys.stderr):
                code = _run(args, results, None)
        except KeyboardInterrupt:
            print_json(results.data())
            raise
        print_json(results.data())
        return code
    if args.json.suffix != ".json":
        raise UsageFault(
            f"--json {args.json}: no file that ends in .json; to print the results, put --json last"
        )
    return _run(args, Results(), args.json)


def _run(args: argparse.Namespace, results: Results, file: Path | None) -> int:
    """Measure into results that may be kept in a file."""
    from tileops.bench.environment import environment
    from tileops.bench.measuring import RIGHT, WRONG
    from tileops.bench.results import Keeper, read_results
    from tileops.bench.session import Session
    from tileops.bench.sweep import WORKLOADS, RowsAmong

    _refuse_idle(args)
    if args.resume and file is None:
        raise UsageFault("--resume goes on with the file of --json: name one, as --json found.json")
    baseline = read_results(args.check) if args.check else None
    if args.resume and file is not None and file.exists():
        results = read_results(file)
    published = _published(args)
    rows: Rows = published or WORKLOADS
    around = environment(device_named(args.device), args.commit)
    check = None if baseline is None else Check(args, baseline, around["device"])
    if check is not None and not args.rows:
        rows = RowsAmong(rows, check.keys)
    order = _order(args, rows, check)
    session = Session(order, results, around, Keeper(file, results))
    _write_junit(args.junit, results)  # what cannot be written is told before measuring
    try:
        tally = _measured(session)
    finally:
        _write_junit(args.junit, results)
    if not results.rows and session.stopped is None and baseline is None:
        kind = "published" if published else "workload"
        raise UsageFault(
            f"no {kind} row is of these labels and dtype; `tileops run OP` tells what it has"
        )
    tally.tell(order.device)
    known = len(results.rows) - tally.states.total()
    known_wrong = results.count(WRONG) - tally.states[WRONG]
    if known:
        print(f"{known} known before" + (f", {known_wrong} of them wrong" if known_wrong else ""))
    if session.stopped:
        print(f"stopped: {session.stopped}")
    for label in session.unknown_labels():
        print(f"no row that was asked for is called {label}")
    _tell_uncompared(args, session)
    if published:
        _tell_unlike(published)
    verdict = check.verdict(results, session) if check else None
    _write_junit(args.junit, results, verdict)
    failed = verdict is not None and (verdict.regressions or verdict.unjudged)
    return 1 if results.count(WRONG) or failed or not results.count(RIGHT) else 0


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse an option that says something about one that was not given, or takes its file."""
    if args.mapping and not args.published:
        raise UsageFault("--mapping maps the rows of --published: give that too")
    if args.tolerance is not None and not args.check:
        raise UsageFault("--tolerance is of the ratios of --check: give that too")
    if args.baselines and not (args.against or args.check):
        raise UsageFault("--baselines holds the functions of --against: give that too")
    if args.junit and args.json and args.junit.resolve() == args.json.resolve():
        raise UsageFault(f"--junit {args.junit} is the file of --json: name another file")


def _published(args: argparse.Namespace) -> PublishedRows | None:
    """The record of published times that was asked for."""
    from tileops.bench.peer_rows import PublishedRows

    return PublishedRows(args.published, args.mapping) if args.published else None


def _order(args: argparse.Namespace, rows: Rows, check: Check | None) -> Order:
    """What the arguments ask for."""
    from tileops.bench.measuring import ROW_SECONDS
    from tileops.bench.session import Order

    known = check.ops if check else None
    specs = _specs(args.ops, args.family, known, tilelang=args.tilelang)
    device = device_named(args.device)
    if args.graph and device.type != "cuda":
        raise UsageFault("--graph replays CUDA graphs: give --device cuda")
    return Order(
        specs=specs,
        device=device,
        labels=args.rows,
        dtype=args.dtype,
        against=check.against if check else args.against or (),
        folder=args.baselines,
        graphs=args.graph,
        seconds=ROW_SECONDS if args.seconds is None else args.seconds,
        jobs=args.jobs,
        budget=args.budget,
        patience=args.patience,
        largest=args.largest,
        rows=rows,
        target=usable_target(args.target),
    )


def _specs(
    names: Sequence[str], family: str | None, known: Collection[str] | None, *, tilelang: bool
) -> list[OpSpec]:
    """The ops that were asked for, at least one; where none is named, all or those known."""
    from tileops.bench.sweep import families_by_turns

    named = [spec_named(name) for name in dict.fromkeys(names)]
    for spec in named:
        class_of(spec)
    if not names:
        implemented = (s for s in all_specs() if s.status == "implemented")
        named = families_by_turns(s for s in implemented if known is None or s.name in known)
    found = [spec for spec in named if family in {None, spec.family}]
    if not found:
        known = sorted({spec.family for spec in named if spec.family})
        raise unknown("family of implemented ops", family or "", known)
    if tilelang:
        found = [spec for spec in found if _has_program(spec)]
    if not found:
        raise UsageFault("none of these ops has a TileLang kernel: leave out --tilelang")
    return found


def _has_program(spec: OpSpec) -> bool:
    kernels = table_of(class_of(spec)).kernel_types.values()
    return any(kernel.needs_tilelang for kernel in kernels)


def _measured(session: Session) -> Tally:
    """Measure, and tell of each row; what they came to."""
    tally, reasons = Tally(), Reasons()
    try:
        with progress(session.most) as bar:
            for record in session.records():
                tally.add(record)
                bar.advance("\n".join(_lines(record, reasons)))
    except RowFault as fault:
        raise UsageFault(str(fault)) from fault
    return tally


def _tell_uncompared(args: argparse.Namespace, session: Session) -> None:
    """Say with what ops that were named could not be compared."""
    for name, ops in session.uncompared() if args.ops else ():
        print(f"{name} has no function for {', '.join(ops)}; --baselines names a folder of them")


def _tell_unlike(published: PublishedRows) -> None:
    """Say which published rows could not be timed."""
    for reason in published.unlike:
        print(f"no call of ours: {reason}")
    if published.elsewhere:
        print(f"{published.elsewhere} published rows are of ops that are not here")


def _lines(record: RowRecord, reasons: Reasons) -> Iterator[str]:
    """A row for people, and a line for each comparison."""
    name = f"{record.op} {record.case}"
    if record.timing is None:
        yield f"{name}: {state_text(record.state)}: {reasons.text(record)}"
        return
    served = f", by {', '.join(record.kernels) or f'target {record.target}'}"
    busy = f"; the host {record.host.median * 1e6:,.1f} us" if record.host else ""
    limit = limit_text(record)
    yield f"{name}: {time_text(record.timing)}{limit}{served}{busy}"
    for other in record.others:
        yield f"  {other.name}: {_other_text(other, record.timing.median)}"


def _other_text(other: OtherRecord, ours: float) -> str:
    if other.timing is None:
        return f"{other.state}: {(other.reason or '').partition(chr(10))[0]}"
    ratio = other.timing.median / ours
    return f"{time_text(other.timing)}, {ratio:.2f} times ours"


def _write_junit(path: Path | None, results: Results, verdict: Verdict | None = None) -> None:
    """Write the file of `--junit`, where one is named."""
    from tileops.bench.junit import junit

    if path is None:
        return
    failed = verdict.reasons() if verdict else {}
    try:
        path.write_text(junit(results.rows, failed), encoding="utf-8")
    except OSError as error:
        raise UsageFault(f"--junit {path}: {error.strerror}; name another file") from error
