"""Results that somebody wrote or damaged: refused with the place, or used without a fault."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, cast
from xml.etree import ElementTree

import jsonschema
import pytest

from bench.samples import published_table, results
from tileops.bench.junit import junit
from tileops.bench.peers import peer_matches
from tileops.bench.ratios import regressions
from tileops.bench.report import html_page
from tileops.bench.results import Results, ResultsFault, merged, read_results
from tileops.cli import op_pages

SCHEMA = (files("tileops.bench") / "results.schema.json").read_text()
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA))
GONE = object()
ODD = [
    GONE, None, True, 0, -1, 5, 1e-300, 1e308, float("nan"), float("inf"), 10**400, [], [1], {},
    {"a": {}}, "", "\ud800", "\x00<script>alert(1)</script>\x1b[31m\n", "long" * 999,
]  # fmt: skip
WHOLE = results()
ROWS = {each["state"]: each for each in reversed(WHOLE.rows)}
"""A row that is right, one that is wrong and one that was left out."""


def places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in data, the whole first."""
    yield place
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield from places(data[key], (*place, key))


def spoilt(data: dict[str, Any], place: tuple[Any, ...], odd: object) -> str:
    """The text of data with something else in one place, or nothing."""
    made = copy.deepcopy(data)
    held: Any = made
    for key in place[:-1]:
        held = held[key]
    if odd is GONE:
        del held[place[-1]]
    else:
        held[place[-1]] = odd
    return json.dumps(made)


class Held(NamedTuple):
    """A file that is in memory alone, as thousands of them should be."""

    content: str

    def __str__(self) -> str:
        return "found.json"

    def read_text(self, encoding: str) -> str:
        """What the file holds."""
        return self.content


@pytest.mark.parametrize("state", ROWS)
def test_results_with_something_odd_are_refused_or_used(state: str, tmp_path: Path) -> None:
    sample = Results(WHOLE.environments, [ROWS[state]])
    dims = {"x_shape": [2048, 4096]}
    times = {"op": "RMSNormFwdOp", "case": "x", "dims": dims, "dtype": "", "peer_tileops_ms": "1",
             "best_other": "", "best_other_ms": "", "bytes": "1"}  # fmt: skip
    table = published_table(tmp_path / "times.csv", times)
    mapping, used = tmp_path / "mapping.yaml", 0
    mapping.write_text("{}")
    for place in filter(None, places(sample.data())):
        for odd in ODD:
            file = Held(spoilt(sample.data(), place, odd))
            try:
                found = read_results(cast("Path", file))
            except ResultsFault as fault:
                assert str(fault).startswith("found.json: ")
                continue
            used += 1
            VALIDATOR.validate(json.loads(file.content))
            page = html_page(merged([found]), peer_matches(found.rows, table, mapping))
            assert "<script>alert" not in page
            ElementTree.fromstring(junit(found.rows, {}).encode())
            regressions(found, sample)
            op_pages._measured([found])
    assert used > 0


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": ' + "1" * 9999 + "}", "\ufeff{"])
def test_what_no_reader_can_read_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ResultsFault, match=r"found\.json: not JSON: "):
        read_results(file)


def test_what_is_not_known_may_be_as_deep_as_can_be_read(tmp_path: Path) -> None:
    file, data = tmp_path / "found.json", results().data()
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    file.write_text(json.dumps({**data, "later": deep}))
    assert len(read_results(file).rows) == len(data["rows"])
