"""What becomes of a row: whose arithmetic counts, and what ends a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tileops._core.spec.registry import lookup
from tileops.bench import calls, clock, measuring, sweep
from tileops.bench.calls import RowCall
from tileops.bench.measuring import LEFT_OUT, RIGHT, WRONG, Manner, measure
from tileops.bench.sweep import RowCase, Sweep, chosen_cases
from tileops.errors import OpNotAvailableError

CPU = torch.device("cpu")
QUICK = Manner(seconds=0.0)


def decode() -> RowCase:
    spec = lookup("RMSNormFwdOp")
    assert spec is not None
    return RowCase(spec, chosen_cases(spec, ["llama-3.1-8b-decode"])[0])


class Elsewhere:
    """A device that is not the CPU, as far as the judging asks."""

    type = "elsewhere"

    def __str__(self) -> str:
        return "cpu"

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_the_cpu_is_asked_before_a_small_row_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def judged(self: RowCall, made: Any, wanted: Any) -> str | None:
        return None if wanted == "of the cpu" else "differs"

    def of_the_cpu(self: RowCall) -> Any:
        asked.append("cpu")
        return "of the cpu"

    monkeypatch.setattr(RowCall, "judged", judged)
    monkeypatch.setattr(RowCall, "wanted_of_cpu", of_the_cpu)
    row = decode()
    assert measure(*row, CPU, QUICK).state == WRONG
    assert asked == [], "it is the CPU that was asked"
    monkeypatch.setattr(measuring, "fits", lambda *_: True)
    call = measuring.row_call(*row, CPU)
    monkeypatch.setattr(measuring, "row_call", lambda *_: call)
    monkeypatch.setattr(RowCall, "wanted", lambda self: "of the device")
    call.ours(*call.inputs.values())
    monkeypatch.setattr(measuring._Measurement, "record", lambda self, wanted: wanted)
    assert measure(*row, Elsewhere(), QUICK) == "of the cpu"  # type: ignore[arg-type]
    monkeypatch.setattr(measuring, "SMALL", 0)
    assert measure(*row, Elsewhere(), QUICK).state == WRONG  # type: ignore[arg-type]


def test_the_outcome_of_the_cpu_is_that_of_the_reference() -> None:
    call = measuring.row_call(*decode(), CPU)
    for one, other in zip(call.wanted(), call.wanted_of_cpu(), strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


def test_memory_that_holds_cached_files_can_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory = tmp_path / "meminfo"
    monkeypatch.setattr(calls, "MEMORY", memory)
    for available, is_left_out in ((1 << 20, False), (64, True)):
        memory.write_text(f"MemFree:   64 kB\nMemAvailable:   {available} kB\nCached:   1 kB\n")
        record = measure(*decode(), CPU, QUICK)
        assert (record.state == LEFT_OUT) == is_left_out
    assert record.reason == "the row and its reference need more memory than is free"
    memory.write_text("MemFree:   64 kB\n")
    assert measure(*decode(), CPU, QUICK).state == RIGHT


def test_a_lost_device_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(device: object) -> None:
        raise RuntimeError("an illegal access\nand much more")

    record = measure(*decode(), CPU, QUICK)
    assert record.state == RIGHT
    monkeypatch.setattr(sweep, "measure", lambda *_: record)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    run = Sweep([decode(), decode()], torch.device("cuda"), QUICK)
    assert list(run) == [record], "the row that lost it is told of"
    assert run.stopped == "cuda no longer answers: an illegal access"
    assert run.has_lost_device


def test_what_nothing_serves_is_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> str:
        raise OpNotAvailableError("no builder")

    monkeypatch.setattr(RowCall, "made", refused)
    record = measure(*decode(), CPU, QUICK)
    assert (record.state, record.reason) == (LEFT_OUT, "no builder")


def test_a_call_too_short_for_events_takes_their_resolution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "event_gap", lambda: 3e-6)
    monkeypatch.setattr(clock, "_between_events", lambda launch, turns: [2e-6, 3e-6, 5e-6])
    found = clock.samples(lambda turn: None, range(3), torch.device("cuda"))
    assert found == [clock.RESOLUTION, clock.RESOLUTION, pytest.approx(2e-6)]
    assert clock.timing(found).median > 0, "a ratio is by it"


def test_what_was_not_measured_names_the_target_that_was_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "fits", lambda *_: False)
    record = measure(*decode(), CPU, Manner(target="builtin"))
    assert (record.state, record.target) == (LEFT_OUT, "builtin")
