"""Hostile specs are rejected within a second, and nothing of theirs runs."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hostile import ALL, BASE

from tileops import manifest
from tileops._core.runtime.plan import signature_plan_for
from tileops._core.validate.report import check_number
from tileops.errors import ManifestError

LIMIT = 1.0
"""Seconds of this process that reading and checking one spec may take."""

TRAP = """
from pathlib import Path
Path({trace!r}).touch()
def spring(*_): Path({trace!r}).touch()
class Trap: pass
"""


@pytest.fixture(autouse=True)
def canary(tree_only: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A module that leaves a trace when it is touched; no spec here may touch it."""
    trace = tmp_path / "canary"
    (tmp_path / "canary.py").write_text(TRAP.format(trace=str(trace)), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    assert not trace.exists()
    assert "canary" not in sys.modules


def errors(path: Path) -> list[str]:
    """What the validator objects to, but that no class implements the spec."""
    found = manifest.validate(source=path).findings
    return [
        f"{each.field}: {each.message}"
        for each in found
        if each.level == "error" and check_number(each) != 45
    ]


def test_there_are_enough() -> None:
    assert len(ALL) >= 60
    assert len(set(ALL.values())) == len(ALL)


def test_the_spec_that_is_varied_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(BASE, encoding="utf-8")
    assert errors(path) == []


@pytest.mark.parametrize("name", ALL)
def test_a_hostile_spec_is_rejected_in_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(ALL[name], encoding="utf-8")
    manifest.specs()
    gc.disable()  # A collection goes through all that other tests have left.
    try:
        started = time.process_time()
        found = errors(path)
        with suppress(ManifestError):
            manifest.register(path)
            signature_plan_for("ProbeFwdOp")
        assert time.process_time() - started < LIMIT
    finally:
        gc.enable()
    assert found


@pytest.mark.parametrize("data", [b"\xff\xfe\x00a", b"ProbeFwdOp: \xed\xa0\x80", b"a: \x00"])
def test_bytes_that_are_no_text_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(data)
    with pytest.raises(ManifestError):
        manifest.register(path)
    assert errors(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"a: b\n" * 4_000_000)
    started = time.process_time()
    with pytest.raises(ManifestError, match="bytes, the limit is"):
        manifest.register(path)
    assert time.process_time() - started < LIMIT
