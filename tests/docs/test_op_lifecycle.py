"""The table of the op's life: every row has a statement and tests, and every test exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "op-lifecycle.md"
NODE = re.compile(r"`(?P<file>[\w./-]+\.py)::(?P<test>\w+)`")
SECTIONS = {"0": 5, "1": 47, "2": 20, "3": 15, "4": 42, "5": 28, "6": 11}
"""How many statements each part of the document has."""


def rows() -> list[tuple[str, str, str]]:
    """The section's number, the statement and the tests of every row."""
    found, section = [], ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3]
        elif line.startswith("| ") and not line.startswith(("| statement", "| ---")):
            _, statement, tests, _ = line.split("|")
            found.append((section, statement.strip(), tests.strip()))
    return found


ROWS = rows()


@cache
def functions(path: Path) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("section", "statement", "tests"), ROWS, ids=[row[1] for row in ROWS])
def test_row_names_tests_that_exist(section: str, statement: str, tests: str) -> None:
    assert statement
    named = tests.split("<br>")
    for node in named:
        match = NODE.fullmatch(node)
        assert match, f"{node!r} is no node id"
        file = match["file"]
        path = ROOT / file if "/" in file else ROOT / "tests" / "op" / file
        assert match["test"] in functions(path)
    assert len(set(named)) == len(named)


def test_no_statement_is_lost() -> None:
    counts = {number: sum(row[0] == number for row in ROWS) for number in SECTIONS}
    assert counts == SECTIONS
    statements = [(section, statement) for section, statement, _ in ROWS]
    assert len(set(statements)) == len(statements)
