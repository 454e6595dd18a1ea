"""Rows come out as they went in, whatever happens to the processes that compile for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tileops._core.spec.registry import lookup
from tileops._core.workload.cases import Case
from tileops.bench import warming
from tileops.bench.baselines import default_folder
from tileops.bench.sweep import RowCase, chosen_cases
from tileops.bench.warming import warmed

CPU = torch.device("cpu")


def rows() -> list[RowCase]:
    spec = lookup("RMSNormFwdOp")
    assert spec is not None
    return [RowCase(spec, case) for case in chosen_cases(spec, ["llama-3.1-8b-decode"])]


def crash(task: object) -> None:
    os._exit(1)


def leave_a_trace(task: tuple[str, Case, str, tuple[str, ...], Path]) -> None:
    (task[4] / task[1].id).touch()


@pytest.mark.slow
def test_each_row_is_compiled_before_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_compile", leave_a_trace)
    for row in warmed(rows(), CPU, [], tmp_path, 1):
        assert (tmp_path / row.case.id).exists()


@pytest.mark.slow
def test_processes_that_crash_cost_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_compile", crash)
    monkeypatch.setattr(warming, "ROWS_PER_JOB", 1)
    given = rows()[:1]
    assert list(warmed(given, CPU, [], default_folder(), 1)) == given


def test_compiling_calls_the_op_and_what_it_is_compared_with() -> None:
    row = rows()[0]
    task = (row.spec.name, row.case, "cpu", ("torch",), default_folder(), None)
    warming._compile(task)
    warming._compile(("LayerNormBwdOp", *task[1:]))  # what fails is said by the measurement


class Idle:
    """A pool that runs nothing."""

    def map(self, function: object, tasks: list[object]) -> list[None]:
        return [None for _ in tasks]

    def shutdown(self, **how: bool) -> None:
        pass


def test_there_are_no_more_processes_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def pool(jobs: int) -> Idle:
        asked.append(jobs)
        return Idle()

    monkeypatch.setattr(warming, "_pool", pool)
    given = rows()
    assert list(warmed(given, CPU, [], default_folder(), 10**9)) == given
    assert asked == [os.cpu_count()]
