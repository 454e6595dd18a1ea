"""The parts of a call that `benchmarks/host` times run alone, by a look and without one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tileops._core.runtime import likeness

HOST = Path(__file__).parents[2] / "benchmarks" / "host"


@pytest.mark.parametrize("looks", [True, False])
def test_parts_of_a_call_run_alone(monkeypatch: pytest.MonkeyPatch, looks: bool) -> None:
    monkeypatch.syspath_prepend(str(HOST))
    for name in ("calls", "steps"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    if not looks:
        monkeypatch.setattr(likeness, "TensorGuards", None)
    calls, steps = importlib.import_module("calls"), importlib.import_module("steps")
    for subject in calls.subjects("cpu").values():
        parts = steps.steps_of(subject)
        assert list(parts) == ["bind", "kind", "steps", "result", "kernel_for", "body"]
        assert parts["result"]()
        for part in parts.values():
            part()
