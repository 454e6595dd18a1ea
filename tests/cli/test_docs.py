"""`tileops docs`: pages about ops, and whether committed ones are up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.samples import results
from tileops.cli import op_pages
from tileops.cli.op_pages import MARK
from tileops.cli.specs import all_specs

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    ours = [spec for spec in all_specs() if spec.in_tree]
    return op_pages.pages(ours, [results()])


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
    assert op_pages.is_measured(made["norm.md"])
    assert not op_pages.is_measured(made["pool.md"])


def test_gradients_are_told(made: dict[str, str]) -> None:
    line = "\nGradients of x, weight: by RMSNormBwdOp.\n"
    assert line in section(made["norm.md"], "RMSNormFwdOp")
    assert "\nGradients: none.\n" in section(made["elementwise.md"], "AddFwdOp")
    assert "Gradients" not in section(made["moe.md"], "FusedMoEFwdOp")


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
    two = {"README.md": f"{MARK}\n# Ops\n", "norm.md": f"{MARK}\n# norm\n"}
    monkeypatch.setattr(
        op_pages, "pages", lambda specs, results, tell: two if len(list(results)) < 2 else {}
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
    (folder / "norm.md").write_text(MARK)
    (folder / "gone.md").write_text(MARK)
    (folder / "own.md").write_text("# Written by hand\n")
    outcome = tileops(*given, "--check")
    assert outcome.code == 1
    hint = "is not up to date: leave out --check to write it\n"
    assert outcome.out == f"{folder / 'norm.md'} {hint}{folder / 'gone.md'} {hint}"
    assert tileops(*given).out.endswith("1 of them new or changed\n")
    assert not (folder / "gone.md").exists()
    assert (folder / "own.md").exists()


def test_measured_times_are_not_taken_away(tileops: Run, few: None, tmp_path: Path) -> None:
    page = f"{MARK}\n# norm\n\n| case | device |\n| --- | --- |\n"
    (tmp_path / "norm.md").write_text(page)
    for more in ((), ("--check",)):
        outcome = tileops("docs", str(tmp_path), *more)
        assert outcome.code == 2
        assert outcome.err.endswith(
            f"{tmp_path / 'norm.md'} would lose measured times: give what they are from, such as "
            "--results benchmarks/results\n"
        )
    (tmp_path / "gone.md").write_text(page)
    assert "gone.md and 1 more would lose" in tileops("docs", str(tmp_path)).err
    assert (tmp_path / "norm.md").read_text() == page


def test_what_was_written_by_hand_is_not_overwritten(
    tileops: Run, few: None, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("# Mine\n")
    outcome = tileops("docs", str(tmp_path))
    assert outcome.code == 2
    place = f"{tmp_path / 'README.md'} was not written by this command; name another folder\n"
    assert outcome.err.endswith(place)


def test_pages_of_some_ops(tileops: Run, tmp_path: Path) -> None:
    outcome = tileops("docs", str(tmp_path), "--ops", "SumFwdOp", "--json")
    assert outcome.data["pages"] == ["README.md", "reduction.md"]
    assert "\n1 op in 1 family.\n" in (tmp_path / "README.md").read_text()
    text = (tmp_path / "reduction.md").read_text()
    assert "## SumFwdOp" in text
    assert "## MeanFwdOp" not in text


def test_pages_of_nothing(tileops: Run, tmp_path: Path) -> None:
    outcome = tileops("docs", str(tmp_path), "--ops", "SumFwd")
    assert outcome.code == 2
    assert "no op or package with ops is called SumFwd; did you mean SumFwdOp?" in outcome.err


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
