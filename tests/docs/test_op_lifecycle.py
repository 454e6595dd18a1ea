"""The table of the op's life: every row has a statement and tests, and every test exists."""

from __future__ import annotations

import pytest
from pages import ROOT, functions, node

DOCUMENT = ROOT / "docs" / "op-lifecycle.md"
SECTIONS = {"0": 5, "1": 49, "2": 20, "3": 15, "4": 42, "5": 28, "6": 11}
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


@pytest.mark.parametrize(("section", "statement", "tests"), ROWS, ids=[row[1] for row in ROWS])
def test_row_names_tests_that_exist(section: str, statement: str, tests: str) -> None:
    assert statement
    named = tests.split("<br>")
    for text in named:
        path, test = node(text)
        assert test in functions(path)
    assert len(set(named)) == len(named)


def test_no_statement_is_lost() -> None:
    counts = {number: sum(row[0] == number for row in ROWS) for number in SECTIONS}
    assert counts == SECTIONS
    statements = [(section, statement) for section, statement, _ in ROWS]
    assert len(set(statements)) == len(statements)
