"""`tileops bench --check`: what a baseline has and is not judged is told, whatever the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from bench.samples import H200, TOYS, other, row
from tileops.bench import baselines, calls, environment, sweep
from tileops.bench.ratios import Regression, Unjudged, Verdict, lost_comparisons
from tileops.bench.results import Results
from tileops.norm import reference

Run = Callable[..., Any]

CASE = "llama-3.1-8b-decode-float16"
HERE = "RMSNormFwdOp", CASE
RENAMED = "RMSNormFwdOp", "llama-3.1-8b-decoding-bfloat16"
REMOVED = "RMSNormalisationFwdOp", "llama-3.1-8b-decode-bfloat16"
QUICK = ("--seconds", "0", "--tolerance", "0.999")


@pytest.fixture
def checked(tileops: Run, tmp_path: Path) -> Run:
    """Check against a baseline of made-up rows of this machine's CPU."""
    device = environment.environment(torch.device("cpu"), None)["device"]

    def run(
        rows: Sequence[tuple[str, str]], *arguments: str, against: Sequence[str] = ("torch",)
    ) -> Any:
        made = []
        for op, case in rows:
            dtype = case.rpartition("-")[2]
            others = [other(name, 1e-7) for name in against]
            tensors = {"x": f"{dtype}[1, 4096]"}
            known = {"others": others, "against": list(against), "tensors": tensors}
            made.append(row(op, case, 1e-6, **known))
        file = tmp_path / "before.json"
        file.write_text(json.dumps(Results([{**H200, "device": device}], made).data()))
        return tileops("bench", *arguments, "--check", str(file), *QUICK)

    return run


def test_rows_and_ops_that_are_gone_fail_the_check(checked: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    outcome = checked([HERE, RENAMED, REMOVED], "--junit", str(file))
    assert outcome.code == 1
    assert outcome.out.splitlines()[-3:] == [
        f"not judged: {' '.join(RENAMED)}: no such row is here",
        f"not judged: {' '.join(REMOVED)}: no op of this name is here",
        f"0 of 1 rows fell behind {tmp_path / 'before.json'}, 2 could not be judged by it",
    ]
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == [RENAMED[1], REMOVED[1]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("RMSNormFwdOp", "--dtype", "float16"),
        ("--row", "llama-3.1-8b-decode"),
        ("--row", CASE),
        ("--dtype", "float16"),
        ("--family", "norm", "--dtype", "float16"),
        ("RMSNormFwdOp", "--row", "llama-3.1-8b-decode", "--dtype", "float16"),
    ],
    ids=" ".join,
)
def test_what_users_leave_out_is_not_missed(checked: Run, arguments: tuple[str, ...]) -> None:
    away = "SiluFwdOp", "llama-3.1-8b-decodes-bfloat16"
    other_row = "RMSNormFwdOp", "llama-3.1-8b-prefill-bfloat16"
    outcome = checked([HERE, RENAMED, away, other_row], *arguments)
    assert outcome.code == 0, outcome.out + outcome.err
    assert "not judged" not in outcome.out


def test_a_row_that_is_here_and_of_another_label_or_dtype_is_left_out(checked: Run) -> None:
    """Also where it might be a row that is gone: its label begins with the one that is given."""
    rows = [HERE, ("RMSNormFwdOp", "llama-3.1-8b-decode-bfloat16")]
    assert checked(rows, "--row", CASE).code == 0
    gone = "RMSNormFwdOp", "llama-3.1-8b-decode-float16-old"
    outcome = checked([HERE, gone], "--row", "llama-3.1-8b-decode")
    assert outcome.code == 1
    assert f"not judged: {' '.join(gone)}: no such row is here" in outcome.out


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (
            [REMOVED],
            (),
            f"none of its ops is here: {REMOVED[0]}; measure others --against a library and",
        ),
        (
            [RENAMED],
            (),
            f"none of its rows is left: {' '.join(RENAMED)}: no such row is here; measure others",
        ),
        (
            [HERE],
            ("SiluFwdOp",),
            "it has no row of SiluFwdOp; it has rows of RMSNormFwdOp",
        ),
        (
            [HERE],
            ("--family", "moe"),
            "it has no row of family moe; it has rows of family norm",
        ),
        (
            [HERE, RENAMED],
            ("--dtype", "float32"),
            "it has no row of dtype float32; it has rows of dtype bfloat16, float16",
        ),
        (
            [HERE],
            ("--row", "decode"),
            f"it has no row called decode; it has rows called {CASE}",
        ),
        (
            [HERE],
            ("--against", "liger"),
            "it has no row compared with liger; it has rows compared with torch",
        ),
        (
            [HERE],
            ("--budget", "0"),
            "none of its rows was measured: the budget of 0 s is used up; give it more",
        ),
        (
            [("RMSNormFwdOp", f"{label}-float16") for label in "abcdefgh"],
            ("--row", "none"),
            "it has rows called a-float16, b-float16, c-float16, d-float16, e-float16, f-float16 "
            "and 2 more",
        ),
    ],
)
def test_nothing_to_measure_is_told_with_its_reason(
    checked: Run,
    tmp_path: Path,
    rows: list[tuple[str, str]],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    outcome = checked(rows, *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert f"--check {tmp_path / 'before.json'}: " in outcome.err


def test_a_row_whose_result_alone_has_the_dtype_is_not_gone(
    tileops: Run, checked: Run, tmp_path: Path
) -> None:
    checked([HERE])
    file = tmp_path / "before.json"
    known = json.loads(file.read_text())
    known["rows"][0]["tensors"]["output"] = "float32[1, 4096]"
    file.write_text(json.dumps(known))
    outcome = tileops("bench", "--dtype", "float32", "--check", str(file))
    assert outcome.code == 2
    assert "none of its rows is of these labels and dtype; name others" in outcome.err


def test_rows_that_the_budget_does_not_reach_are_counted(
    checked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [HERE, ("RMSNormFwdOp", "llama-3.1-70b-decode-float16"), REMOVED]
    measure, turns = sweep.measure, iter((None,))
    clock = [0.0]

    def measured(*arguments: Any) -> Any:
        next(turns)
        clock[0] = 60.0
        return measure(*arguments)

    monkeypatch.setattr(sweep, "measure", measured)
    monkeypatch.setattr(sweep.time, "monotonic", lambda: clock[0])
    outcome = checked(rows, "--budget", "30")
    assert outcome.out.endswith("before.json, 1 could not be judged by it, 1 were not reached\n")
    assert outcome.code == 1, "what is gone is gone"


def test_ops_that_are_named_and_not_in_the_baseline_are_told(checked: Run, tmp_path: Path) -> None:
    outcome = checked([HERE], "RMSNormFwdOp", "SiluFwdOp")
    assert outcome.code == 0
    assert f"\n{tmp_path / 'before.json'} has no row of SiluFwdOp\n" in outcome.out


def test_rows_that_a_lost_device_leaves_fail_the_check(
    checked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(run: sweep.Sweep) -> bool:
        run.stopped, run.has_lost_device = "cuda no longer answers: an illegal access", True
        return False

    monkeypatch.setattr(sweep.Sweep, "_settled", lost)
    left = "RMSNormFwdOp", "llama-3.1-70b-decode-float16"
    outcome = checked([HERE, left])
    assert outcome.code == 1
    assert f"not judged: {' '.join(left)}: cuda no longer answers: an illegal" in outcome.out


def test_a_row_that_is_left_out_now_fails_the_check(
    checked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "HEADROOM", 1 << 60)
    outcome = checked([HERE])
    assert outcome.code == 1
    assert f"not judged: {' '.join(HERE)}: left out: " in outcome.out


def test_a_row_that_is_wrong_is_told_once(checked: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.rms_norm
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: right(*args, **kw) + 1)
    outcome = checked([HERE])
    assert outcome.code == 1
    assert "not judged" not in outcome.out + outcome.err
    assert "--against" not in outcome.err


def test_comparisons_that_no_longer_run_fail_the_check(
    checked: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toys.py").write_text(TOYS)
    monkeypatch.setattr(baselines, "_libraries", {})
    toys = ("--baselines", str(tmp_path))
    outcome = checked([HERE], *toys, against=("good", "bad", "lazy", "idle"))
    assert outcome.code == 1
    *_, told, summary = outcome.out.splitlines()
    assert told.startswith(f"not judged: {' '.join(HERE)}: bad is wrong: ")
    assert told.endswith("; idle has no function for it; lazy is absent: not today")
    assert summary.startswith("0 of 1 rows fell behind ")
    asked = checked([HERE], *toys, "--against", "good", against=("good", "lazy"))
    assert asked.code == 0, "users left it out"


def test_what_was_right_before_and_is_asked_for_is_lost() -> None:
    others = [other("torch", 2e-5), other("liger", 3e-5), other("cudnn", None, "wrong")]
    known = row("AFwdOp", "a", others=others)
    assert lost_comparisons(known, known, ["torch", "liger", "cudnn"]) is None
    alone = row("AFwdOp", "a", others=[other("torch", 2e-5)])
    assert lost_comparisons(alone, known, ["torch"]) is None
    assert lost_comparisons(alone, known, ["torch", "liger"]) == "liger has no function for it"
    left = row("AFwdOp", "a", state="left out", timing=None, others=[], reason="too large\nfor it")
    assert lost_comparisons(left, known, ["liger"]) == "left out: too large"
    assert lost_comparisons(left, known, ["cudnn"]) is None
    assert lost_comparisons({**left, "state": "wrong"}, known, ["liger"]) is None


def test_a_row_that_fell_and_lost_a_comparison_fails_for_the_former() -> None:
    fallen = Regression("AFwdOp", "a", "torch", 2.0, 1.0)
    lost = Unjudged("AFwdOp", "a", "liger has no function for it")
    only = Unjudged("AFwdOp", "b", "no such row is here")
    assert Verdict(1, [fallen], [lost, only]).reasons() == {
        ("AFwdOp", "a"): str(fallen),
        ("AFwdOp", "b"): "not judged: AFwdOp b: no such row is here",
    }
