"""Many rows in one go: which, in what order, and for how long."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator

import torch

from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops._core.workload.rows import cases_of
from tileops.bench.calls import bytes_of
from tileops.bench.measuring import RowRecord, left_out, measure

ROW_SECONDS = 1.0
"""About how long one row is timed."""


def chosen_cases(
    spec: OpSpec, labels: Collection[str] | None = None, dtype: str | None = None
) -> list[Case]:
    """The cases of an op that were asked for.

    Args:
        spec: the op's spec.
        labels: labels of rows, or ids of cases; every row where absent.
        dtype: a dtype that some tensor of the case has.

    Raises:
        RowFault: a row breaks a rule.
    """
    return [
        case
        for case in cases_of(spec)
        if (labels is None or {case.setting.row.label, case.id}.intersection(labels))
        and (dtype is None or dtype in {form.dtype for form in case.tensors.values()})
    ]


def sweep(
    rows: Iterable[tuple[OpSpec, Case]], device: torch.device, budget: float | None = None
) -> Iterator[RowRecord]:
    """Measure cases, those that move little first, until the time is used up.

    Args:
        rows: what to measure.
        device: where.
        budget: seconds after which no further case is begun; no end where absent.
    """
    begun = time.monotonic()
    for spec, case in sorted(rows, key=lambda row: bytes_of(row[1])):
        if budget is not None and time.monotonic() - begun >= budget:
            yield left_out(spec, case, device, f"the budget of {budget:g} s is used up")
        else:
            yield measure(spec, case, device, ROW_SECONDS)
