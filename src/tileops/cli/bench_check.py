"""`tileops bench --check`: which rows of a baseline are asked for, and what became of each.

None passes unseen: a row that is asked for and cannot be judged fails the check. Only users leave
rows out, by naming ops, by filters, and by the budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tileops.cli.nearest import further
from tileops.cli.output import UsageFault
from tileops.cli.specs import all_specs, spec_named, unloaded

if TYPE_CHECKING:
    from tileops.bench.ratios import Row, Unjudged, Verdict
    from tileops.bench.results import Results
    from tileops.bench.session import Session

MOST = 6
"""How many names an error lists."""


class _Filter(NamedTuple):
    """What users chose rows by.

    Args:
        kind: what stands before a value where rows are spoken of.
        given: the values that are asked for; no filter where there are none.
        values: those that a row answers to.
        shown: those by which a row is told.
    """

    kind: str
    given: Collection[str]
    values: Callable[[Row], Iterable[str]]
    shown: Callable[[Row], Iterable[str]]


class Check:
    """The rows of a baseline by which a run is judged.

    Args:
        args: the arguments of the command.
        baseline: the results of `--check`.
        device: the name of the device that is measured.

    Raises:
        UsageFault: none of the rows is asked for, or of an op that is here.
    """

    def __init__(self, args: argparse.Namespace, baseline: Results, device: str | None) -> None:
        self._file: Path = args.check
        self._baseline, self._tolerance = baseline, args.tolerance
        self._rows = self._judgeable(device)
        for each in _filters(args):
            self._rows = self._kept(each)
        self.against: list[str] = args.against or _compared(baseline)
        """The libraries to compare with."""
        self.keys = {_key(row) for row in self._rows}
        """Op and case of each row."""
        ops = {op for op, _ in self.keys}
        self._strange = [name for name in args.ops if name not in ops]
        self.ops = ops.intersection(s.name for s in all_specs() if s.status == "implemented")
        """The ops that are here."""
        if not self.ops:
            fault = self._fault(f"none of its ops is here: {_some(ops)}")
            for lost in unloaded():
                raise UsageFault(further(str(fault), lost))
            raise fault

    def verdict(self, results: Results, session: Session) -> Verdict:
        """Print what fell behind or could not be judged, and a summary.

        Args:
            results: what was found.
            session: what found it.

        Raises:
            UsageFault: nothing was left to be measured.
        """
        from tileops.bench.ratios import TOLERANCE, regressions

        tolerance = TOLERANCE if self._tolerance is None else self._tolerance
        unjudged = list(self._unjudged(results, session))
        verdict = regressions(results, self._baseline, tolerance)._replace(unjudged=unjudged)
        if self.keys.isdisjoint(map(_key, results.rows)):
            raise self._unmeasured(verdict, session)
        if self._strange:
            print(f"{self._file} has no row of {', '.join(self._strange)}")
        for fallen in verdict.regressions:
            print(f"fell behind: {fallen}")
        for each in unjudged:
            print(f"not judged: {each}")
        left = sum(1 for _ in self._unbegun(results)) if _is_used_up(session) else 0
        print(
            f"{len(verdict.regressions)} of {verdict.judged} rows fell behind {self._file}"
            + (f", {len(unjudged)} could not be judged by it" if unjudged else "")
            + (f", {left} were not reached" if left else "")
        )
        return verdict

    def _judgeable(self, device: str | None) -> list[Row]:
        """The rows of the device, refused where none is of use."""
        from tileops.bench.ratios import judgeable

        theirs = sorted({self._baseline.device(row) for row in self._baseline.rows})
        if theirs and device not in theirs:
            raise self._fault(f"its rows are of {', '.join(theirs)}, not of {device}", advice="")
        found = judgeable(self._baseline, device)
        if not found:
            raise self._fault("its rows have no comparison", "measure them --against one")
        return found

    def _kept(self, by: _Filter) -> list[Row]:
        """The rows that answer to a filter, refused where none does."""
        if not by.given:
            return self._rows
        kept = [row for row in self._rows if not set(by.given).isdisjoint(by.values(row))]
        if not kept:
            shown = {value for row in self._rows for value in by.shown(row)}
            asked = f"it has no row {by.kind} {', '.join(by.given)}"
            raise self._fault(asked, f"it has rows {by.kind} {_some(shown)}")
        return kept

    def _unjudged(self, results: Results, session: Session) -> Iterator[Unjudged]:
        """The rows that were asked for and of which less can be said than before."""
        from tileops.bench.ratios import Unjudged, lost_comparisons

        found = {_key(row): row for row in results.rows}
        for row in self._rows:
            now = found.get(_key(row))
            reason = (
                self._absence(row, session)
                if now is None
                else lost_comparisons(now, row, self.against)
            )
            if reason is not None:
                yield Unjudged(row["op"], row["case"], reason)

    def _absence(self, row: Row, session: Session) -> str | None:
        """Why a row was not measured, unless users left it out."""
        op, case = _key(row)
        if op not in self.ops:
            return "no op of this name is here"
        if session.stopped:
            return session.stopped if session.has_lost_device else None
        return None if session.has_left_out(op, case) else "no such row is here"

    def _unbegun(self, results: Results) -> Iterator[Row]:
        """The rows of ops that are here and were not measured."""
        found = set(map(_key, results.rows))
        return (row for row in self._rows if row["op"] in self.ops and _key(row) not in found)

    def _unmeasured(self, verdict: Verdict, session: Session) -> UsageFault:
        """Why none of the rows was measured."""
        if session.stopped:
            advice = "give it more" if _is_used_up(session) else ""
            return self._fault(f"none of its rows was measured: {session.stopped}", advice)
        if verdict.unjudged:
            return self._fault(f"none of its rows is left: {_some(map(str, verdict.unjudged))}")
        return self._fault("none of its rows is of these labels and dtype", "name others")

    def _fault(
        self, reason: str, advice: str = "measure others --against a library and --json a file"
    ) -> UsageFault:
        return UsageFault(f"--check {self._file}: {reason}" + (advice and f"; {advice}"))


def _filters(args: argparse.Namespace) -> Iterator[_Filter]:
    """What the arguments choose rows by."""
    from tileops.bench.ratios import compared_with

    def op(row: Row) -> list[str]:
        return [row["op"]]

    def family(row: Row) -> list[str]:
        return [row["family"]]

    def case(row: Row) -> list[str]:
        return [row["case"]]

    for name in args.ops:
        spec_named(name)  # which tells of a name of nothing
    yield _Filter("of", args.ops, op, op)
    yield _Filter("of family", [args.family] if args.family else [], family, family)
    yield _Filter("called", args.rows or [], _labels, case)
    yield _Filter("of dtype", [args.dtype] if args.dtype else [], _dtypes, _dtypes)
    yield _Filter("compared with", args.against or [], compared_with, compared_with)


def _labels(row: Row) -> list[str]:
    """What may be the label of a row: its case, or what comes before a dash."""
    words = row["case"].split("-")
    return ["-".join(words[:count]) for count in range(1, len(words) + 1)]


def _dtypes(row: Row) -> set[str]:
    """The dtypes of the tensors of a row."""
    return {text.partition("[")[0] for text in row["tensors"].values()}


def _compared(baseline: Results) -> list[str]:
    """What the rows of a file were compared with."""
    return sorted({name for row in baseline.rows for name in row["against"]})


def _key(row: Any) -> tuple[str, str]:
    return row["op"], row["case"]


def _is_used_up(session: Session) -> bool:
    """Whether the budget was."""
    return session.stopped is not None and not session.has_lost_device


def _some(names: Iterable[str]) -> str:
    """The first of many names, and how many more there are."""
    found = sorted(names)
    more = len(found) - MOST
    return ", ".join(found[:MOST]) + (f" and {more} more" if more > 0 else "")
