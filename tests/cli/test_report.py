"""`tileops report`: results as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.samples import H200, results, row
from tileops.bench import baselines
from tileops.bench.results import Results

Run = Callable[..., Any]
TIMES = """op,case,dims,dtype,peer_tileops_ms,best_other,best_other_ms,bytes
RMSNormFwdOp,there,"{""x_shape"":[2048,4096]}",bfloat16,0.02,torch,0.03,1
"""


@pytest.fixture
def found(tmp_path: Path) -> Path:
    file = tmp_path / "found.json"
    file.write_text(json.dumps(results().data()))
    return file


def test_a_page_is_written_beside_the_results(tileops: Run, found: Path) -> None:
    outcome = tileops("report", str(found))
    page = found.with_suffix(".html")
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{page}: 6 rows\n"
    assert "RMSNormFwdOp" in page.read_text(encoding="utf-8")


def test_characters_that_no_file_can_hold_are_written_by_number(
    tileops: Run, tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    file.write_text(json.dumps(Results([H200], [row("Odd\ud800FwdOp", "a\x00b")]).data()))
    assert tileops("report", str(file)).code == 0
    assert "Odd&#55296;FwdOp" in file.with_suffix(".html").read_text(encoding="utf-8")


def test_published_times_stand_beside_them(tileops: Run, found: Path, tmp_path: Path) -> None:
    page, times = tmp_path / "page.html", tmp_path / "times.csv"
    times.write_text(TIMES)
    outcome = tileops("report", str(found), "-o", str(page), "--against", str(times))
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{page}: 6 rows, 1 beside {times}\n"
    assert "Beside the published record" in page.read_text(encoding="utf-8")


def test_several_results_are_one_page(tileops: Run, found: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    rows = [row("RMSNormFwdOp", "prefill-bfloat16", 2e-5), row("SumFwdOp", "rows-bfloat16")]
    other.write_text(json.dumps(Results([{**H200, "torch": "2.12.0"}], rows).data()))
    outcome = tileops("report", str(found), str(other))
    assert outcome.out == f"{found.with_suffix('.html')}: 7 rows\n", "one of the two is newer"
    page = found.with_suffix(".html").read_text(encoding="utf-8")
    assert "torch 2.12.0" in page
    assert page.count("in environment 1, below") == 3
    assert page.count("in environment 2, below") == 2, "each row says where it was measured"


def test_without_results_those_of_the_checkout_are_shown(
    tileops: Run, found: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "benchmarks" / "baselines"
    monkeypatch.setattr(baselines, "default_folder", lambda: folder)
    outcome = tileops("report")
    assert outcome.code == 2
    assert (
        f"no results are given, and {folder.parent / 'results'} has none; `tileops bench"
        in outcome.err
    )
    kept = folder.parent / "results"
    kept.mkdir(parents=True)
    (kept / "else.json").write_text("{}")
    (kept / "gpu.json").write_text(found.read_text())
    before = sorted(kept.iterdir())
    monkeypatch.chdir(tmp_path)
    assert tileops("report").out == "tileops.html: 6 rows\n"
    assert sorted(kept.iterdir()) == before
    assert tileops("report", "--json").data == {"page": "tileops.html", "rows": 6, "beside": 0}


def test_arguments_that_cannot_be_used(tileops: Run, found: Path) -> None:
    for arguments, message in (
        (("/no/such/file",), "/no/such/file: No such file or directory"),
        (("",), ".: Is a directory"),
        (("/",), "/: Is a directory"),
        ((str(found), "-o", "/no/such/folder/x"), "/no/such/folder/x: No such file"),
        ((str(found), "--mapping", "x"), "--mapping maps the rows of --against"),
        ((str(found), "-o", str(found)), f"{found} holds the results: -o FILE writes elsewhere"),
    ):
        outcome = tileops("report", *arguments)
        assert outcome.code == 2
        assert message in outcome.err
