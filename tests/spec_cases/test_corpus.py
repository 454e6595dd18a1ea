"""Every malformed spec of the corpus has exactly the findings it names, well-formed ones none.

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

from tileops._core.spec.content import Problem
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.tree import Tree
from tileops._core.validate.report import Report, check_number
from tileops._core.validate.validator import check_manifest, validate

_COMMENT = re.compile(r"(?:^|\s)# (?P<level>expect|advise): (?P<items>.*)$")
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
MALFORMED = sorted([*(HERE / "malformed").glob("*.yaml"), *(HERE / "files").glob("*.yaml")])
WELL_FORMED = sorted((HERE / "wellformed").glob("*.yaml"))
TREES = sorted((HERE / "trees").iterdir())


def validated(path: Path) -> Report:
    """The report on a file that may name what lies in the package `spec_cases`."""
    return validate(source=path, caller="spec_cases", branch_limit=256)


def found_in(report: Report, label: str) -> list[Expected]:
    """What a report says about a file and its specs, in the form of expectations."""
    return [
        Expected(
            None if found.op == label else found.op,
            found.field,
            check_number(found),
            found.level,
            report.places[found].line,
            found.message,
        )
        for found in report.findings
        if report.places[found].file == label
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
    found = found_in(validated(path), str(path))
    assert differences(expected_in(path), found) == []


@pytest.mark.parametrize("path", WELL_FORMED, ids=lambda path: path.stem)
def test_well_formed(path: Path) -> None:
    report = validated(path)
    assert report.findings == []
    assert report.ok


@pytest.mark.parametrize("root", TREES, ids=lambda path: path.name)
def test_trees(root: Path) -> None:
    """In-tree rules, on small trees of their own; files are told apart by their labels."""
    known = Manifest(tree=Tree(root, [path.name for path in root.iterdir()]))
    problems = [*known.problems, *(Problem(*each) for each in known.adt_table.places.items())]
    report = check_manifest(known, known.names, problems, 256)
    for path in (path for path in root.rglob("*") if path.is_file()):
        label = path.relative_to(root).as_posix()
        found = [each._replace(line=max(each.line, 1)) for each in found_in(report, label)]
        assert differences(expected_in(path), found) == []


def test_the_corpus_is_large() -> None:
    """Enough specs of either kind, and each check that needs no code stands in it."""
    malformed = [path for path in HERE.rglob("*.yaml") if path.parent.name != "wellformed"]
    checks = {found.check for path in malformed for found in expected_in(path)}
    assert set(range(1, 46)) <= checks
    assert sum(map(spec_count, malformed)) >= 150
    assert sum(map(spec_count, WELL_FORMED)) >= 60


def spec_count(path: Path) -> int:
    """The number of specs in a file, read or not."""
    headings = (_OP.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return sum(heading is not None and heading["name"] != "adts" for heading in headings)
