"""Tables of statements: every row has a statement and proofs of it, and every proof exists."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from pages import ROOT, assert_proof


class Page(NamedTuple):
    """A document, the folder in which its tests lie, and how many statements each part has."""

    name: str
    within: str
    counts: dict[str, int]


PAGES = [
    Page("compile-trace.md", "tests", {"1": 9, "2": 13, "3": 5, "4": 3, "5": 2, "6": 9}),
    Page(
        "op-lifecycle.md",
        "tests/op",
        {"0": 5, "1": 49, "2": 20, "3": 15, "4": 42, "5": 28, "6": 11, "Calls": 19},
    ),
    Page(
        "signature-trace.md",
        "tests",
        {
            "1": 29,
            "2": 9,
            "3": 17,
            "4": 12,
            "5": 12,
            "6": 27,
            "7": 10,
            "8": 21,
            "9": 23,
            "10": 17,
            "11": 18,
            "12": 27,
            "13": 26,
            "14": 12,
            "15": 10,
            "16": 8,
            "17": 14,
            "18": 16,
            "19": 70,
            "20": 9,
        },
    ),
]


class Row(NamedTuple):
    """One row: its document, the number of its part, the statement and the proofs."""

    page: Page
    section: str
    statement: str
    proofs: str


def rows(page: Page) -> list[Row]:
    found, section = [], ""
    for line in (ROOT / "docs" / page.name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.split()[1].rstrip(",")
        elif line.startswith("| ") and not line.startswith(("| statement", "| ---")):
            _, statement, proofs, _ = line.split("|")
            found.append(Row(page, section, statement.strip(), proofs.strip()))
    return found


ROWS = [row for page in PAGES for row in rows(page)]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.section}: {row.statement}" for row in ROWS])
def test_row_names_proofs_that_exist(row: Row) -> None:
    assert row.statement
    named = row.proofs.split("<br>")
    for text in named:
        assert_proof(text, row.page.within)
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_no_statement_is_lost(page: Page) -> None:
    own = [row for row in ROWS if row.page is page]
    counts = {number: sum(row.section == number for row in own) for number in page.counts}
    assert counts == page.counts
    assert sum(counts.values()) == len(own)
    assert len({(row.section, row.statement) for row in own}) == len(own)
