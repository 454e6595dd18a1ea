"""Sources and documents stand by themselves: no section marks, no promises of later work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SECTION_MARK = "\N{SECTION SIGN}"
PROMISES = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")
FORBIDDEN = re.compile(rf"{SECTION_MARK}|\b(?:{'|'.join(PROMISES)})\b")
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh"}


def texts(root: Path) -> Iterator[Path]:
    """What the project publishes."""
    for folder in ("src", "tests", "docs", "scripts", "benchmarks", "examples", "changelog.d"):
        yield from (path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    yield from (path for path in root.glob("*") if path.is_file() and path.suffix in SUFFIXES)


def offences(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{path.name}:{number}: {line.strip()}" for number, line in enumerate(lines, 1)
            if FORBIDDEN.search(line)]  # fmt: skip


def test_texts_stand_by_themselves(root: Path) -> None:
    assert not [offence for path in texts(root) for offence in offences(path)]


@pytest.mark.parametrize("line", [f"see {SECTION_MARK}4", f"{PROMISES[0]}: later"])
def test_an_offence_is_seen(tmp_path: Path, line: str) -> None:
    sample = tmp_path / "sample.md"
    sample.write_text(line, encoding="utf-8")
    assert offences(sample)
