"""Every malformed spec of the corpus has exactly the findings it names; well-formed ones have none.

Expected findings stand in comments on the lines that cause them.

`# expect: V13 signature.shape_rules[0]: text` on a line says that validation reports an error of
check 13 at that field of the spec around the line, that the message contains the text, and that
the finding's place is this line. `# advise:` says the same of an advisory; `;` separates several.
`<op>` stands for the spec itself; `@file` at the end says that the finding belongs to the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tileops._core.validate.report import Report, check_number
from tileops._core.validate.validator import validate

_COMMENT = re.compile(r"\s# (?P<level>expect|advise): (?P<items>.*)$")
_ITEM = re.compile(r"V(?P<check>\d+) (?P<field>[^:;]+?)(?:: (?P<text>.*?))?(?P<file> @file)?$")
_OP = re.compile(r"^(?P<name>[^\s#:]+):")


class Expected(NamedTuple):
    """One finding; `op` is None where it belongs to the file."""

    op: str | None
    field: str
    check: int
    level: str
    line: int
    text: str


def expected_in(path: Path) -> list[Expected]:
    """The findings that a file's comments ask for."""
    found: list[Expected] = []
    op: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        heading = _OP.match(line)
        if heading:
            op = heading["name"]
        found += _expected_on(line, number, op)
    return found


def _expected_on(line: str, number: int, op: str | None) -> Iterator[Expected]:
    comment = _COMMENT.search(line)
    if comment is None:
        return
    level = "error" if comment["level"] == "expect" else "advisory"
    for item in comment["items"].split("; V"):
        match = _ITEM.fullmatch(item if item.startswith("V") else f"V{item}")
        assert match is not None, f"line {number}: {item!r} is no expectation"
        field = "" if match["field"] == "<op>" else match["field"]
        owner = None if match["file"] else op
        yield Expected(owner, field, int(match["check"]), level, number, match["text"] or "")


HERE = Path(__file__).parent
MALFORMED = sorted((HERE / "malformed").glob("*.yaml"))
WELL_FORMED = sorted((HERE / "wellformed").glob("*.yaml"))


def validated(path: Path) -> Report:
    """The report on a file that may name what lies in the package `spec_cases`."""
    return validate(source=path, caller="spec_cases", branch_limit=256)


def found_in(report: Report, path: Path) -> list[Expected]:
    """A report in the form of expectations."""
    return [
        Expected(
            None if found.op == str(path) else found.op,
            found.field,
            check_number(found),
            found.level,
            report.places[found].line,
            found.message,
        )
        for found in report.findings
    ]


def differences(expected: list[Expected], found: list[Expected]) -> list[str]:
    """What was expected and not found, and the other way round."""
    left = list(found)
    lines = []
    for wanted in expected:
        match = next((f for f in left if f[:5] == wanted[:5] and wanted.text in f.text), None)
        if match is None:
            lines.append(f"missing  {wanted}")
        else:
            left.remove(match)
    return lines + [f"surplus  {each}" for each in left]


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: path.stem)
def test_malformed(path: Path) -> None:
    found = found_in(validated(path), path)
    assert differences(expected_in(path), found) == []


@pytest.mark.parametrize("path", WELL_FORMED, ids=lambda path: path.stem)
def test_well_formed(path: Path) -> None:
    report = validated(path)
    assert report.findings == []
    assert report.ok
