"""The table of errors: every number is there once, and the tests it names hold the class."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest
from pages import ROOT, functions, node

from tileops import errors

DOCUMENT = ROOT / "docs" / "op-errors.md"
NUMBERS = [f"E{number:02}" for number in range(1, 90) if number != 17]


def rows() -> list[tuple[str, str, str, str]]:
    """The number, the situation, the classes and the tests of every row."""
    found = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| E"):
            number, situation, classes, tests = (cell.strip() for cell in line.split("|")[1:-1])
            found.append((number, situation, classes, tests))
    return found


ROWS = rows()


def names_used(path: Path, test: str) -> set[str]:
    """The names in a test and in what it uses of its module, at any remove."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts: dict[str, ast.stmt] = dict(functions(path))
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            parts |= {n.id: statement for n in statement.targets if isinstance(n, ast.Name)}
    seen: set[str] = set()
    waiting = {test}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        if name in parts:
            used = {n.id for n in ast.walk(parts[name]) if isinstance(n, ast.Name)}
            used |= {n.arg for n in ast.walk(parts[name]) if isinstance(n, ast.arg)}
            waiting |= used - seen
    return seen


def test_every_number_is_there_once() -> None:
    assert [row[0] for row in ROWS] == NUMBERS
    assert len({row[1] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("situation", "classes", "tests"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_row_names_tests_that_hold_the_class(situation: str, classes: str, tests: str) -> None:
    assert situation
    used: set[str] = set()
    for text in tests.split("<br>"):
        path, test = node(text)
        assert test in functions(path)
        used |= names_used(path, test)
    for name in classes.replace("`", "").split(", ") if "`" in classes else ():
        kind = getattr(errors, name, None) or getattr(builtins, name)
        assert issubclass(kind, Exception)
        assert name in used, f"no test of the row expects {name}"
