"""`tileops docs`: pages about ops, and whether committed ones are up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.samples import results
from tileops.cli import op_pages

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return op_pages.pages([results()])


def section(page: str, op: str) -> str:
    return page.partition(f"\n## {op}\n")[2].partition("\n## ")[0]


def test_an_op_has_formula_signature_parameters_cost_and_kernels(made: dict[str, str]) -> None:
    text = section(made["reduction.md"], "SumFwdOp")
    for part in (
        "Sum over axes; 0 over empty ones. Source: `torch.sum`.",
        "∀ S : Shape, T ∈ {float16, bfloat16, float32}",
        "| `dim` | `int \\| list[int] \\| tuple[int, ...] \\| None` | `None` |  |",
        "Operations: `prod(S)`. Bytes: each input and output once.",
        "| reduction | `RowReductionKernel` | cuda sm_90 |  | One result for each row. |",
    ):
        assert part in text
    assert "Composed of route" in section(made["moe.md"], "FusedMoEFwdOp")


def test_measured_times_are_shown_beside_the_best_other(made: dict[str, str]) -> None:
    text = section(made["norm.md"], "RMSNormFwdOp")
    assert "| case | device |" in text
    assert " us" in text
    assert "ratio " in text
    assert "| case |" not in section(made["norm.md"], "LayerNormFwdOp")


def test_the_index_links_to_every_op(made: dict[str, str]) -> None:
    for name, page in made.items():
        if name != "README.md":
            for line in page.splitlines():
                if line.startswith("## "):
                    op = line.removeprefix("## ")
                    assert f"[{op}]({name}#{op.lower()})" in made["README.md"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages instead of all, for what does not depend on what they say."""
    two = {"README.md": "# Ops\n", "norm.md": "# norm\n"}
    monkeypatch.setattr(
        op_pages, "pages", lambda results, tell: two if len(list(results)) < 2 else {}
    )


def test_pages_are_written_and_checked(tileops: Run, few: None, tmp_path: Path) -> None:
    folder, found = tmp_path / "ops", tmp_path / "results"
    found.mkdir()
    (found / "h.json").write_text(json.dumps(results().data()))
    (found / "other.json").write_text("[]")
    given = ("docs", str(folder), "--results", str(found))
    assert tileops(*given, "--check").code == 1
    outcome = tileops(*given)
    assert outcome.out == f"{folder}: 2 pages, 2 of them new or changed\n"
    assert tileops(*given, "--check").code == 0
    (folder / "norm.md").write_text("")
    (folder / "gone.md").write_text("")
    outcome = tileops(*given, "--check")
    assert outcome.code == 1
    hint = "is not up to date: leave out --check to write it\n"
    assert outcome.out == f"{folder / 'norm.md'} {hint}{folder / 'gone.md'} {hint}"
    assert tileops(*given).out.endswith("1 of them new or changed\n")
    assert not (folder / "gone.md").exists()


def test_a_folder_that_cannot_be_written_is_named(tileops: Run, few: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = tileops("docs", str(tmp_path / "file" / "ops"))
    assert outcome.code == 2
    assert str(tmp_path / "file" / "ops") in outcome.err


def test_results_that_are_named_must_be_some(tileops: Run, tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text("[]")
    outcome = tileops("docs", str(tmp_path / "ops"), "--results", str(tmp_path / "h.json"))
    assert outcome.code == 2
    assert "no results of tileops bench" in outcome.err


def test_the_committed_pages_are_up_to_date(tileops: Run) -> None:
    folder, found = ROOT / "docs/ops", ROOT / "benchmarks/results"
    outcome = tileops("docs", str(folder), "--results", str(found), "--check")
    assert outcome.code == 0, f"{outcome.out}run `make pages`"
