"""How an op compares with the best of the others, and whether that has become worse.

A ratio is the other's time over ours: above 1 the op is faster. Times vary from day to day,
ratios of times taken in turns much less, so regressions are judged by ratios.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tileops.bench.measuring import WRONG
from tileops.bench.results import Results

Row = Mapping[str, Any]
TOLERANCE = 0.1
"""The share by which a ratio may fall."""


class Best(NamedTuple):
    """The fastest of what a row is compared with: its name, and its time over the op's."""

    name: str
    ratio: float


class Regression(NamedTuple):
    """A row whose ratio fell: to what, from what, and against what."""

    op: str
    case: str
    name: str
    before: float
    now: float

    def __str__(self) -> str:
        return (
            f"{self.op} {self.case}: {self.now:.2f} times as fast as {self.name}, "
            f"{self.before:.2f} before"
        )


class Unjudged(NamedTuple):
    """A row by whose ratio nothing can be said, or less than before, and why."""

    op: str
    case: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} {self.case}: {self.reason}"


class Verdict(NamedTuple):
    """How many rows two results share and could be judged by, which fell, and which were not."""

    judged: int
    regressions: list[Regression]
    unjudged: Sequence[Unjudged] = ()

    def reasons(self) -> dict[tuple[str, str], str]:
        """Why rows fail that are not wrong, by op and case."""
        unjudged = {(each.op, each.case): f"not judged: {each}" for each in self.unjudged}
        return unjudged | {(each.op, each.case): str(each) for each in self.regressions}


def best_other(row: Row, among: Collection[str] | None = None) -> Best | None:
    """The fastest right comparison of a row, None where there is none.

    Args:
        row: a row of a results file.
        among: only these; all where absent.
    """
    if not row["timing"]:
        return None
    ours = row["timing"]["median"]
    found = [
        Best(other["name"], other["timing"]["median"] / ours)
        for other in row["others"]
        if other["timing"] and (among is None or other["name"] in among)
    ]
    return min(found, key=lambda best: best.ratio, default=None)


def judgeable(baseline: Results, device: str | None) -> list[Row]:
    """The rows of a device by which later ones can be judged."""
    return [
        row
        for row in baseline.rows
        if baseline.device(row) == device and best_other(row) is not None
    ]


def regressions(results: Results, baseline: Results, tolerance: float = TOLERANCE) -> Verdict:
    """Compare the ratios of two results, over the devices and the comparisons that both have.

    Args:
        results: what was found now.
        baseline: what was found before.
        tolerance: the share by which a ratio may fall.
    """
    pairs = list(_pairs(results, baseline))
    fallen = [pair for pair in pairs if pair.now < pair.before * (1 - tolerance)]
    return Verdict(len(pairs), fallen)


def _pairs(results: Results, baseline: Results) -> Iterator[Regression]:
    before = {(row["op"], row["case"], baseline.device(row)): row for row in baseline.rows}
    for row in results.rows:
        known = before.get((row["op"], row["case"], results.device(row)))
        if known is None:
            continue
        common = compared_with(row) & compared_with(known)
        now, then = best_other(row, common), best_other(known, common)
        if now is not None and then is not None:
            yield Regression(row["op"], row["case"], now.name, then.ratio, now.ratio)


def compared_with(row: Row) -> set[str]:
    """The comparisons of a row that were right."""
    return {other["name"] for other in row["others"] if other["timing"]}


def lost_comparisons(row: Row, known: Row, among: Collection[str]) -> str | None:
    """Why a row that is not wrong cannot be judged by all that it could before; None where it can.

    Args:
        row: what was found now.
        known: what was found before.
        among: the comparisons that are asked for.
    """
    wanted = compared_with(known).intersection(among)
    if not wanted or row["state"] == WRONG:
        return None
    if row["timing"] is None:
        return _state(row)
    others = {other["name"]: other for other in row["others"]}
    lost = sorted(wanted - compared_with(row))
    faults = [
        f"{name} is {_state(others[name])}" if name in others else f"{name} has no function for it"
        for name in lost
    ]
    return "; ".join(faults) or None


def _state(record: Row) -> str:
    """A state with the first line of its reason."""
    reason = (record["reason"] or "").partition("\n")[0]
    return f"{record['state']}: {reason}" if reason else str(record["state"])
