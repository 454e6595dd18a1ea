"""What CONTRIBUTING says of one more op is all that it takes: it is done to a copy of the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from console import run_session
from pages import ROOT, all_fences

DOCUMENT = ROOT / "CONTRIBUTING.md"


def put(file: Path, body: str) -> None:
    """Append to a file, which need not be there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as text:
        text.write(f"\n\n{body}\n")


def test_one_more_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "tileops", tmp_path / "src" / "tileops", ignore=ignored)
    monkeypatch.chdir(tmp_path)
    sessions = []
    for words, body in all_fences(DOCUMENT):
        if words[1:2] == ["append"]:
            put(tmp_path / words[2], body)
        elif words == ["console", "tree"]:
            sessions.append(body)
    ops = tmp_path / "src" / "tileops" / "transform" / "ops.py"
    listed = '__all__ = ["HaarTransformFwdOp", '
    ops.write_text(ops.read_text(encoding="utf-8").replace("__all__ = [", listed), encoding="utf-8")
    assert len(sessions) == 1
    run_session(sessions[0], tmp_path / "src")
