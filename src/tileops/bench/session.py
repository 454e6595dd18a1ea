"""One run of the bench: it measures the rows that are left and adds them to the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tileops._core.spec.model import OpSpec
from tileops._core.targets.selection import named_target
from tileops._core.workload.cases import Case
from tileops.backend import BUILTIN
from tileops.bench.baselines import default_folder, load, rivals
from tileops.bench.measuring import ROW_SECONDS, Manner, RowRecord
from tileops.bench.results import Keeper, Results, ResultsFault
from tileops.bench.sweep import WORKLOADS, Rows, Sweep, by_turns, chosen_cases
from tileops.bench.warming import warmed


@dataclass(frozen=True)
class Order:
    """What was asked for.

    Args:
        specs: the ops.
        device: where.
        labels: labels of rows, or ids of cases; every row where absent.
        dtype: a dtype that some tensor of a case has.
        against: names of the libraries to compare with.
        folder: where their functions lie; those of the checkout where absent.
        graphs: whether CUDA graphs of the calls are timed too.
        seconds: about how long each contestant of a row is timed.
        jobs: how many processes compile before the timing; none where 0.
        budget: seconds after which no further row is begun; no limit where absent.
        patience: seconds that a row may take in all; no limit where absent.
        largest: whether an op's largest row comes first, else its smallest.
        rows: where the cases come from.
        target: what serves the ops; the device decides where absent.
    """

    specs: Sequence[OpSpec]
    device: torch.device
    labels: Sequence[str] | None = None
    dtype: str | None = None
    against: Sequence[str] = ()
    folder: Path | None = None
    graphs: bool = False
    seconds: float = ROW_SECONDS
    jobs: int = 0
    budget: float | None = None
    patience: float | None = None
    largest: bool = False
    rows: Rows = WORKLOADS
    target: str | None = None


class Session:
    """Measures what the results do not have yet.

    Args:
        order: what was asked for.
        results: what is known; new records are added to it.
        environment: what the records depend on.
        keeper: writes the results as they grow.

    Raises:
        BaselineFault: a comparison that was asked for cannot be made.
        ResultsFault: the results are of another device.
    """

    def __init__(
        self, order: Order, results: Results, environment: Mapping[str, Any], keeper: Keeper
    ) -> None:
        self._order, self._results, self._keeper = order, results, keeper
        self._environment = environment
        for known in results.environments:
            if known["device"] != environment["device"]:
                reason = f"its rows are of {known['device']}, not of {environment['device']}"
                raise ResultsFault(f"these results cannot be resumed: {reason}")
        folder = order.folder or default_folder()
        if set(order.against) - {BUILTIN}:
            load(folder)
        self._manner = _manner(order)
        self._done = results.done(self._manner)
        self._named: set[str | None] = set()
        rows = by_turns(order.specs, self._left, largest=order.largest)
        if order.jobs:
            target = self._manner.target
            rows = warmed(rows, order.device, order.against, folder, order.jobs, target)
        self._sweep = Sweep(rows, order.device, self._manner, order.budget)

    @property
    def stopped(self) -> str | None:
        """Why some rows were not begun; None where all were."""
        return self._sweep.stopped

    @property
    def has_lost_device(self) -> bool:
        """Whether that is because the device no longer answers."""
        return self._sweep.has_lost_device

    def uncompared(self) -> Iterator[tuple[str, list[str]]]:
        """Libraries with the ops that were asked for and for which they have no function."""
        for rival in self._manner.against:
            names = [s.name for s in self._order.specs if not rival.serves(s.name)]
            if names:
                yield rival.name, names

    def unknown_labels(self) -> list[str]:
        """Labels that were asked for and that no case has, once all rows were read."""
        labels = () if self.stopped else self._order.labels or ()
        return [label for label in labels if label not in self._named]

    def has_left_out(self, op: str, case: str) -> bool:
        """Whether a case is here, or may be, and was not asked for."""
        spec = next((spec for spec in self._order.specs if spec.name == op), None)
        return spec is None or any(each.id == case for each in self._order.rows.cases(spec))

    @property
    def most(self) -> int:
        """An upper bound of the number of cases, found without reading rows."""
        rows, labels = self._order.rows, self._order.labels
        return sum(rows.count(spec, labels) for spec in self._order.specs)

    def records(self) -> Iterator[RowRecord]:
        """Measure row after row."""
        self._keeper.write()
        try:
            for record in self._sweep:
                self._results.add(record, self._environment, self._manner)
                self._keeper.grown()
                yield record
        finally:
            self._keeper.write()

    def _left(self, spec: OpSpec) -> list[Case]:
        order = self._order
        chosen = chosen_cases(spec, order.labels, order.dtype, order.rows)
        for case in chosen:
            self._named |= {case.id, case.setting.row.label}
        return [case for case in chosen if (spec.name, case.id) not in self._done]


def _manner(order: Order) -> Manner:
    """How the rows of an order are timed: by one target, whatever names it."""
    against = rivals(order.against, order.device)
    named = named_target(order.target, order.device)
    target = named[0] if named else None
    return Manner(against, order.graphs, order.seconds, order.patience, target)
