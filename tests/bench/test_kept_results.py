"""The results that the tree keeps: ops with a TileLang kernel have rows, and of which kernel."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tileops.bench.measuring import RIGHT
from tileops.bench.results import read_results
from tileops.cli.specs import all_specs, class_of, table_of

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("h200-bench.json", "h200-published.json")


def served() -> dict[str, set[str]]:
    """The classes of the kernels that served the right rows of each op."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in KEPT:
        for row in read_results(ROOT / "benchmarks" / "results" / name).rows:
            if row["state"] == RIGHT and row["timing"]:
                found[row["op"]].update(row["kernels"])
    return found


def tilelang_kernels() -> dict[str, set[str]]:
    """The classes of the TileLang kernels of each op that has some."""
    found = {}
    for spec in all_specs():
        if str(spec.home).startswith("tileops.") and spec.status == "implemented":
            kernels = table_of(class_of(spec)).kernel_types.values()
            found[spec.name] = {each.__name__ for each in kernels if each.needs_tilelang}
    return {name: kernels for name, kernels in found.items() if kernels}


def test_one_page_shows_the_rows_of_all_files() -> None:
    page = (ROOT / "benchmarks" / "results" / "h200.html").read_text(encoding="utf-8")
    shown = re.findall(r'<td class="name"><b>(\w+)</b><small>([^<]*)</small></td><td data', page)
    measured = [
        (row["op"], row["case"])
        for name in KEPT
        for row in read_results(ROOT / "benchmarks" / "results" / name).rows
        if row["state"] == RIGHT
    ]
    assert sorted(set(shown) & set(measured)) == sorted(measured)


def test_every_op_with_a_tilelang_kernel_has_a_row_by_one() -> None:
    ran, have = served(), tilelang_kernels()
    assert len(have) > 100
    assert [name for name in sorted(have) if not have[name] & ran[name]] == []
