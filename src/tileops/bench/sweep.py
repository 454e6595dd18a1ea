"""Many rows in one go: which, in what order, and for how long.

Every op has one row measured before any has its second, so that a budget covers as many ops as it
can. Rows of an op are read when its turn comes.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch

from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops._core.workload.rows import cases_of
from tileops.bench.calls import bytes_of
from tileops.bench.measuring import LEFT_OUT, PLAINLY, Manner, RowRecord, measure


class RowCase(NamedTuple):
    """A case to be measured, and its spec."""

    spec: OpSpec
    case: Case


class Rows(Protocol):
    """Where the cases of ops come from."""

    def count(self, spec: OpSpec, labels: Collection[str] | None = None) -> int:
        """How many cases an op has, or its rows of these labels, found without reading them."""

    def cases(self, spec: OpSpec) -> Iterable[Case]:
        """The cases of an op.

        Raises:
            RowFault: a row breaks a rule.
        """


class WorkloadRows:
    """The rows of specs."""

    def count(self, spec: OpSpec, labels: Collection[str] | None = None) -> int:
        """How many cases an op has, or its rows of these labels, as they are written."""
        return sum(
            len(row.dtype_cases) or 1
            for row in spec.workloads
            if row is not None and (labels is None or row.label in labels)
        )

    def cases(self, spec: OpSpec) -> Iterable[Case]:
        """The cases of an op."""
        return cases_of(spec)


WORKLOADS = WorkloadRows()


class RowsAmong:
    """The cases of a source that are among known ones.

    Args:
        rows: where the cases come from.
        known: op and case of each.
    """

    def __init__(self, rows: Rows, known: Collection[tuple[str, str]]) -> None:
        self._rows, self._known = rows, known

    def count(self, spec: OpSpec, labels: Collection[str] | None = None) -> int:
        """How many cases an op has at most."""
        known = sum(op == spec.name for op, _ in self._known)
        return min(self._rows.count(spec, labels), known)

    def cases(self, spec: OpSpec) -> Iterable[Case]:
        """The cases of an op."""
        return [case for case in self._rows.cases(spec) if (spec.name, case.id) in self._known]


def chosen_cases(
    spec: OpSpec,
    labels: Collection[str] | None = None,
    dtype: str | None = None,
    rows: Rows = WORKLOADS,
) -> list[Case]:
    """The cases of an op that were asked for.

    Args:
        spec: the op's spec.
        labels: labels of rows, or ids of cases; every row where absent.
        dtype: a dtype that some tensor of the case has.
        rows: where the cases come from.

    Raises:
        RowFault: a row breaks a rule.
    """
    return [
        case
        for case in rows.cases(spec)
        if (labels is None or {case.setting.row.label, case.id}.intersection(labels))
        and (dtype is None or dtype in {form.dtype for form in case.tensors.values()})
    ]


def families_by_turns(specs: Iterable[OpSpec]) -> list[OpSpec]:
    """Ops with families taking turns, so that a budget cuts something off every family."""
    places: Counter[str | None] = Counter()
    ranked = []
    for spec in specs:
        places[spec.family] += 1
        ranked.append((places[spec.family], spec))
    return [spec for _, spec in sorted(ranked, key=lambda each: each[0])]


def by_turns(
    specs: Sequence[OpSpec], chosen: Callable[[OpSpec], list[Case]], *, largest: bool = False
) -> Iterator[RowCase]:
    """The cases of ops by the bytes that they move, one of each op at a time.

    Args:
        specs: the ops.
        chosen: the cases of an op; called when its turn comes.
        largest: whether those that move most come first, else those that move least.
    """
    turns = deque((spec, _by_size(spec, chosen, largest)) for spec in specs)
    while turns:
        spec, cases = turns.popleft()
        case = next(cases, None)
        if case is not None:
            yield RowCase(spec, case)
            turns.append((spec, cases))


def _by_size(spec: OpSpec, chosen: Callable[[OpSpec], list[Case]], largest: bool) -> Iterator[Case]:
    yield from sorted(chosen(spec), key=bytes_of, reverse=largest)


class Sweep:
    """Measures cases until the time is used up, or the device is lost.

    Args:
        rows: what to measure.
        device: where.
        manner: how.
        budget: seconds after which no case is begun, and one that was begun is left; no limit
            where absent.
    """

    def __init__(
        self,
        rows: Iterable[RowCase],
        device: torch.device,
        manner: Manner = PLAINLY,
        budget: float | None = None,
    ) -> None:
        self._rows, self._device, self._manner, self._budget = rows, device, manner, budget
        self.stopped: str | None = None
        """Why rows are left that were not begun; None where none are."""
        self.has_lost_device = False
        """Whether that is because the device no longer answers."""

    def __iter__(self) -> Iterator[RowRecord]:
        end = math.inf if self._budget is None else time.monotonic() + self._budget
        for spec, case in self._rows:
            left = end - time.monotonic()
            record = measure(spec, case, self._device, self._hasty(left)) if left > 0 else None
            if record is None or (record.state == LEFT_OUT and time.monotonic() >= end):
                self.stopped = f"the budget of {self._budget:g} s is used up"
                return
            yield record
            if not self._settled():
                return

    def _hasty(self, left: float) -> Manner:
        """The manner of a row for which no more time is left than this."""
        patience = self._manner.patience
        if left == math.inf or (patience is not None and patience <= left):
            return self._manner
        return replace(self._manner, patience=left)

    def _settled(self) -> bool:
        """Free memory after a row; whether the device still answers."""
        if any(rival.compiled for rival in self._manner.against):
            torch.compiler.reset()
        if self._device.type != "cuda":
            return True
        try:
            torch.cuda.synchronize(self._device)
            torch.cuda.empty_cache()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            self.stopped = f"{self._device} no longer answers: {reason}"
            self.has_lost_device = True
        return self.stopped is None
