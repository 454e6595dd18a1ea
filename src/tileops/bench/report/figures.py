"""What a report shows, computed from the rows of results; `page` turns it into text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

from tileops.bench.clock import is_spread
from tileops.bench.measuring import RIGHT
from tileops.bench.ratios import Best, best_other

LEVEL = 0.97
"""A ratio from which on an op counts as no slower: below lies what is told apart from noise."""


@dataclass(frozen=True)
class Figure:
    """A measured row, and what follows from it.

    Args:
        row: the row of the results.
        device: the name of the device.
        best: the fastest comparison, None where there is none.
    """

    row: Mapping[str, Any]
    device: str
    best: Best | None

    @property
    def seconds(self) -> float:
        """The device time of a call."""
        return float(self.row["timing"]["median"])

    @property
    def efficiency(self) -> float | None:
        """The fraction of the device's limit that was reached."""
        reading = self.row["reading"]
        return None if reading is None else float(reading["efficiency"])

    @property
    def is_unsteady(self) -> bool:
        """Whether its time, or one that it is compared with, says little."""
        timings = (self.row["timing"], *(other["timing"] for other in self.row["others"]))
        return any(each and is_spread(each["low"], each["high"]) for each in timings)

    @property
    def intensity(self) -> float | None:
        """Operations for each byte; None where there are none of one kind."""
        flops, moved = self.row["flops"], self.row["bytes"]
        return flops / moved if flops and moved else None


@dataclass(frozen=True)
class Summary:
    """Several rows in a few numbers.

    Args:
        ops: how many ops they are of.
        rows: how many were measured.
        compared: how many have a comparison.
        level: how many of those are no slower than the best of them.
        ratio: the geometric mean of the others' best times over ours.
        least: the lowest ratio.
        most: the highest ratio.
        efficiency: the median of the fractions of the limit.
    """

    ops: int
    rows: int
    compared: int
    level: int
    ratio: float | None
    least: float | None
    most: float | None
    efficiency: float | None


def figures(
    environments: Sequence[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> list[Figure]:
    """The rows that were right and timed."""
    return [
        Figure(row, environments[row["environment"]]["device"], best_other(row))
        for row in rows
        if row["state"] == RIGHT and row["timing"]
    ]


def summary(found: Sequence[Figure]) -> Summary:
    """Several rows in a few numbers."""
    ratios = sorted(figure.best.ratio for figure in found if figure.best)
    fractions = [figure.efficiency for figure in found if figure.efficiency is not None]
    return Summary(
        ops=len({figure.row["op"] for figure in found}),
        rows=len(found),
        compared=len(ratios),
        level=sum(ratio >= LEVEL for ratio in ratios),
        ratio=exp(sum(map(log, ratios)) / len(ratios)) if ratios else None,
        least=ratios[0] if ratios else None,
        most=ratios[-1] if ratios else None,
        efficiency=median(fractions) if fractions else None,
    )


def families(found: Iterable[Figure]) -> dict[str, list[Figure]]:
    """The rows of each family, by name."""
    groups: dict[str, list[Figure]] = {}
    for figure in found:
        groups.setdefault(figure.row["family"], []).append(figure)
    return dict(sorted(groups.items()))
