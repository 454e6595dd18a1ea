"""docs/cli.md says what each command prints as JSON: the commands are run, the fields compared."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT

from tileops._core.spec.model import Finding
from tileops.cli import main, op_pages, stubs
from tileops.cli.commands import COMMANDS

SECTION = re.compile(r"^### `tileops (?P<command>[^`]+)`\n(?P<body>.*?)(?=^##|\Z)", re.M | re.S)
FIELD = re.compile(r"^\| `(?P<field>[^`]+)` \|", re.MULTILINE)
TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = {match["command"]: FIELD.findall(match["body"]) for match in SECTION.finditer(TEXT)}


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The place of everything that is neither a list nor a mapping with entries, and its value."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list) and value:
        for part in value:
            yield from leaves(part, f"{place}[]")
    else:
        yield place, value


def is_told(place: str, value: Any, fields: list[str]) -> bool:
    """Whether a field stands for a place; what is empty may have parts that are told."""
    is_empty = value in (None, [], {})
    return any(
        place == field
        or (field.endswith(".*") and place.startswith(field[:-1]))
        or (is_empty and field.startswith((f"{place}[", f"{place}.")))
        for field in fields
    )


def is_there(field: str, found: list[tuple[str, Any]]) -> bool:
    """Whether some place is told by a field, or an empty one above would hold it."""
    stem = field.removesuffix("*").removesuffix("[]")
    return any(
        place.startswith(stem) or (value in (None, [], {}) and field.startswith(place))
        for place, value in found
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command prints, in one folder, in the order of the page."""
    folder = tmp_path_factory.mktemp("cli")
    found, codes = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # made in tests/cli
        patch.setattr(op_pages, "pages", lambda specs, results, tell: {"a.md": ""})
        patch.setattr(stubs, "stubs_of", lambda package, tell: {folder / "a.pyi": ""})
        for command in SECTIONS:
            *words, last = shlex.split(command)
            capture = folder / "out"
            with capture.open("w") as out:
                patch.setattr("sys.stdout", out)
                codes[command] = main([*words, last])
            printed = Path(last) if last.endswith(".json") else capture
            found[command] = json.loads(printed.read_text(encoding="utf-8"))
    stale = {"stubs --check --json": 1}
    assert {command: code for command, code in codes.items() if code} == stale
    return found


def test_every_command_with_data_has_a_section() -> None:
    assert {command.split()[0] for command in SECTIONS} == set(COMMANDS) - {"completion"}


@pytest.mark.parametrize("command", [name for name, fields in SECTIONS.items() if fields])
def test_fields_are_those_of_the_page(answers: dict[str, Any], command: str) -> None:
    found, fields = list(leaves(answers[command])), SECTIONS[command]
    assert sorted({place for place, value in found if not is_told(place, value, fields)}) == []
    optional = {"devices[].arch", "devices[].multiprocessors", "devices[].memory_bytes"}
    assert [f for f in fields if f not in optional and not is_there(f, found)] == []


def test_findings_have_the_fields_of_the_page() -> None:
    fields = {f.partition("[].")[2] for f in SECTIONS["validate SinFwdOp --json"] if "[]" in f}
    assert fields == {*Finding._fields, "file", "line"}


def test_the_measure_sees_fields_that_are_not_told() -> None:
    found = list(leaves({"a": [{"b": 1}], "c": {"d": 2}, "e": []}))
    assert found == [("a[].b", 1), ("c.d", 2), ("e", [])]
    fields = ["a[].b", "c.*", "e[].f"]
    assert all(is_told(place, value, fields) for place, value in found)
    assert all(is_there(field, found) for field in fields)
    assert not is_told("a[].x", 1, fields)
    assert not is_there("g", found)
