"""`tileops bench`: rows of many ops, judged, timed, kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import torch

from bench.samples import H200, TOYS, published_table, row
from tileops.bench import baselines, calls, session, sweep
from tileops.bench.measuring import Manner
from tileops.bench.ratios import regressions
from tileops.bench.results import Results
from tileops.norm import reference

Run = Callable[..., Any]

SCHEMA = json.loads((files("tileops.bench") / "results.schema.json").read_text())
KIND = {"format": "tileops-bench", "version": 1}
DECODE = ("--row", "llama-3.1-8b-decode", "--dtype", "float16")


def test_rows_are_timed_and_kept(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--json", str(file), "--commit", "abc")
    assert outcome.code == 0, outcome.out + outcome.err
    line, summary = outcome.out.splitlines()
    assert line.startswith("RMSNormFwdOp llama-3.1-8b-decode-float16: ")
    assert line.endswith(" calls), by RMSNormPortableKernel")
    assert summary == "1 right, 0 wrong, 0 left out"
    report = json.loads(file.read_text())
    jsonschema.validate(report, SCHEMA)
    (environment,) = report["environments"]
    assert (environment["torch"], environment["commit"]) == (torch.__version__, "abc")
    (row,) = report["rows"]
    assert (row["op"], row["state"], row["bytes"]) == ("RMSNormFwdOp", "right", 3 * 4096 * 2)


def test_ops_take_turns_smallest_rows_first(tileops: Run) -> None:
    rows = ("--row", "llama-3.1-70b-decode", "--row", "llama-3.1-8b-decode", "--dtype", "float16")
    outcome = tileops("bench", "--family", "norm", *rows, "--seconds", "0.01")
    assert outcome.code == 0, outcome.out + outcome.err
    lines = [line.partition(": ")[0] for line in outcome.out.splitlines()[:-1]]
    small = lines.index("RMSNormFwdOp llama-3.1-8b-decode-float16")
    other = lines.index("FusedAddRMSNormFwdOp llama-3.1-8b-decode-float16")
    assert other < small < lines.index("RMSNormFwdOp llama-3.1-70b-decode-float16")
    backwards = tileops("bench", "RMSNormFwdOp", *rows, "--seconds", "0.01", "--largest")
    assert backwards.out.startswith("RMSNormFwdOp llama-3.1-70b-decode-float16: ")


def test_a_used_up_budget_begins_no_row(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--budget", "0", "--json", str(file))
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "0 right, 0 wrong, 0 left out",
        "stopped: the budget of 0 s is used up",
    ]
    assert json.loads(file.read_text())["rows"] == []


def test_the_row_in_which_the_budget_ends_is_left(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any, **params: Any) -> None:
        time.sleep(60)

    monkeypatch.setattr(reference, "rms_norm", slow)
    file, begun = tmp_path / "found.json", time.monotonic()
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--budget", "0.5", "--json", str(file))
    assert time.monotonic() - begun < 30
    assert outcome.out.splitlines() == [
        "0 right, 0 wrong, 0 left out",
        "stopped: the budget of 0.5 s is used up",
    ]
    assert json.loads(file.read_text())["rows"] == []


def test_families_take_turns(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def chosen(spec: Any, *rest: object) -> list[Any]:
        begun.append(spec.family)
        return []

    monkeypatch.setattr(session, "chosen_cases", chosen)
    assert tileops("bench").code == 2
    first = begun[: len(set(begun))]
    assert sorted(first) == sorted(set(begun)), "one op of each before a second of any"


def test_without_ops_no_row_is_read_before_its_turn(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(spec: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(sweep, "cases_of", read)
    with pytest.raises(AssertionError, match="a row was read"):
        tileops("bench", "--budget", "9")
    monkeypatch.setattr(session, "Sweep", lambda rows, *rest: sweep.Sweep((), *rest))
    assert tileops("bench").code == 2, "no rows, none read"


def test_a_run_goes_on_where_it_was_left(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    quick = ("bench", "RMSNormFwdOp", "--row", "llama-3.1-8b-decode", "--seconds", "0.01")
    arguments = (*quick, "--json", str(file), "--resume")
    assert tileops(*arguments, "--dtype", "float16").out.startswith("RMSNormFwdOp llama-3.1-8b-")
    outcome = tileops(*arguments)
    assert outcome.code == 0
    assert "-float16" not in outcome.out, "it is known"
    assert outcome.out.splitlines()[1:] == ["1 right, 0 wrong, 0 left out", "1 known before"]
    assert tileops(*arguments).out.splitlines()[-1] == "2 known before"
    again = tileops(*arguments, "--against", "torch")
    assert again.out.count("\n  torch: ") == 2, "with a comparison they are not known"
    report = json.loads(file.read_text())
    assert [row["case"].rpartition("-")[2] for row in report["rows"]] == ["float16", "bfloat16"]
    assert {row["others"][0]["state"] for row in report["rows"]} == {"right"}


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ({"target": "acme"}, ()),
        ({"target": None, "state": "wrong", "timing": None, "host": None}, ()),
        ({"seconds": 0.001}, ("--seconds", "0.0015")),
    ],
    ids=["other target", "unknown target", "shorter"],
)
def test_what_was_measured_in_another_manner_is_measured_again(
    tileops: Run, tmp_path: Path, known: dict[str, Any], asked: tuple[str, ...]
) -> None:
    file = tmp_path / "found.json"
    quick = ("bench", "RMSNormFwdOp", *DECODE, "--seconds", "0", "--json", str(file))
    assert tileops(*quick).code == 0
    report = json.loads(file.read_text())
    (before,) = report["rows"]
    assert (before["graphs"], before["seconds"]) == (False, 0)
    file.write_text(json.dumps({**report, "rows": [{**before, **known}]}))
    outcome = tileops(*quick, *asked, "--resume")
    assert (outcome.code, outcome.out.splitlines()[1:]) == (0, ["1 right, 0 wrong, 0 left out"])
    (again,) = json.loads(file.read_text())["rows"]
    assert (again["state"], again["target"]) == ("right", "builtin")


@pytest.mark.parametrize(
    "known", [{}, {"seconds": 9.0}, {"graphs": True}, {"against": ["torch", "cublas"]}]
)
def test_what_was_measured_in_this_manner_or_more_is_known(known: dict[str, Any]) -> None:
    kept = row("RMSNormFwdOp", "decode", **{"graphs": False, "seconds": 0.12346, **known})
    older = {key: value for key, value in kept.items() if key not in {"graphs", "seconds"}}
    manner = Manner(seconds=0.123456, target="builtin")
    for each in (kept, older):
        assert Results([H200], [each]).done(manner) == {("RMSNormFwdOp", "decode")}
    wrong = {**kept, "state": "wrong", "seconds": 0.0}
    assert Results([H200], [wrong]).done(manner), "it was judged"
    graphs = Manner(graphs=True, seconds=0.1, target="builtin")
    assert bool(Results([H200], [kept]).done(graphs)) == kept["graphs"]
    assert Results([H200], [older]).done(graphs), "it has a time of a graph"


def test_ops_with_which_a_library_cannot_be_compared_are_told(tileops: Run) -> None:
    outcome = tileops(
        "bench", "DropoutFwdOp", "--budget", "1", "--seconds", "0", "--against", "torch"
    )
    assert "\ntorch has no function for DropoutFwdOp; --baselines names a folder" in outcome.out


def test_results_of_another_device_are_not_mixed(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    known = {**KIND, "environments": [{**H200, "device": "Abacus"}]}
    file.write_text(json.dumps({**known, "rows": []}))
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--json", str(file), "--resume")
    assert outcome.code == 2
    assert "cannot be resumed: its rows are of Abacus, not of " in outcome.err


def test_known_rows_that_are_wrong_stay_bad_news(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    around = tileops("bench", "RMSNormFwdOp", *DECODE, "--seconds", "0", "--json").data
    known = {**around["rows"][0], "state": "wrong", "reason": "numbers", "timing": None}
    file.write_text(json.dumps({**around, "rows": [known]}))
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--json", str(file), "--resume")
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "0 right, 0 wrong, 0 left out",
        "1 known before, 1 of them wrong",
    ]


def test_what_is_named_twice_is_measured_once(tileops: Run) -> None:
    twice = ("RMSNormFwdOp", "RMSNormFwdOp", *DECODE, "--seconds", "0", "--against", "torch, torch")
    outcome = tileops("bench", *twice)
    assert outcome.out.endswith("1 right, 0 wrong, 0 left out\n"), outcome.out + outcome.err
    assert outcome.out.count("torch: ") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ("[]", "no results of tileops bench"),
        ('{"format": "tileops-bench", "version": 2}', "of version 2, this tileops reads 1"),
        (
            '{"format": "tileops-bench", "version": 1}',
            "damaged results: the file has no environments; `tileops bench --json FILE.json`",
        ),
        (
            json.dumps({**KIND, "environments": [], "rows": [row("AFwdOp", "a")]}),
            "damaged results: there is no environment of rows[0]",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused(
    tileops: Run, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "found.json"
    file.write_text(text)
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--check", str(file))
    assert outcome.code == 2
    assert message in outcome.err


def test_others_are_named_timed_and_judged(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toys.py").write_text(TOYS)
    monkeypatch.setattr(baselines, "_libraries", {})
    file = tmp_path / "found.json"
    rows = ("RMSNormFwdOp", "AbsFwdOp", "--row", "llama-3.1-8b-decode", "--row", "none-such")
    outcome = tileops(
        *("bench", *rows, "--dtype", "float16", "--seconds", "0.01", "--json", str(file)),
        *("--against", "good,bad,lazy,idle", "--baselines", str(tmp_path)),
    )
    assert outcome.code == 0, outcome.out + outcome.err
    _, good, bad, lazy, _, *without = outcome.out.splitlines()
    ops = [line.partition("; ")[0] for line in without]
    assert ops == [
        "no row that was asked for is called none-such",
        *(f"{name} has no function for AbsFwdOp" for name in ("good", "bad", "lazy")),
        "idle has no function for RMSNormFwdOp, AbsFwdOp",
    ]
    assert good.startswith("  good: ")
    assert good.endswith(" times ours")
    assert bad.startswith("  bad: wrong: RMSNormFwdOp(")
    assert lazy == "  lazy: absent: not today"
    others = json.loads(file.read_text())["rows"][0]["others"]
    assert [(other["name"], other["version"], other["timing"] is None) for other in others] == [
        ("good", "1", False), ("bad", "1", True), ("lazy", "1", True),
    ], "idle does not have the op"  # fmt: skip


def test_junit_has_a_case_per_row(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "found.xml"
    quick = ("--seconds", "0.01", "--junit", str(file))
    assert tileops("bench", "RMSNormFwdOp", *DECODE, *quick).code == 0
    (case,) = ElementTree.parse(file).getroot()
    assert case.get("classname") == "RMSNormFwdOp"
    assert case.get("name") == "llama-3.1-8b-decode-float16"
    monkeypatch.setattr(calls, "HEADROOM", 1 << 60)
    assert tileops("bench", "RMSNormFwdOp", *DECODE, *quick).code == 1
    assert ElementTree.parse(file).getroot().get("skipped") == "1"


def test_a_fallen_ratio_fails(tileops: Run, tmp_path: Path) -> None:
    file, baseline = tmp_path / "found.json", tmp_path / "before.json"
    quick = ("RMSNormFwdOp", *DECODE, "--seconds", "0.05")
    against = ("--against", "torch", "--json", str(baseline))
    assert tileops("bench", *quick, *against).code == 0
    same = tileops("bench", *quick, "--check", str(baseline), "--tolerance", "0.9")
    assert same.code == 0, same.out
    assert same.out.endswith(f"0 of 1 rows fell behind {baseline}\n")
    report = json.loads(baseline.read_text())
    report["rows"][0]["others"][0]["timing"]["median"] *= 1000
    baseline.write_text(json.dumps(report))
    worse = tileops("bench", *quick, "--check", str(baseline), "--junit", str(file))
    assert worse.code == 1
    assert "fell behind: RMSNormFwdOp llama-3.1-8b-decode-float16: " in worse.out
    assert ElementTree.parse(file).getroot().get("failures") == "1"
    report["rows"] = []
    baseline.write_text(json.dumps(report))
    nothing = tileops("bench", *quick, "--check", str(baseline))
    assert (nothing.code, nothing.out) == (2, "")
    assert f"--check {baseline}: its rows have no comparison; measure them --against" in nothing.err


def test_the_rows_of_a_baseline_are_those_measured(tileops: Run, tmp_path: Path) -> None:
    """Where neither ops nor rows are named; of an op that is named, those that it has there."""
    file, baseline = tmp_path / "found.json", tmp_path / "before.json"
    against = ("--seconds", "0.01", "--against", "torch", "--json", str(baseline))
    assert tileops("bench", "RMSNormFwdOp", *DECODE, *against).code == 0
    check = ("--seconds", "0.01", "--check", str(baseline), "--tolerance", "0.99")
    for ops in ((), ("RMSNormFwdOp",)):
        file.unlink(missing_ok=True)
        outcome = tileops("bench", *ops, *check, "--json", str(file))
        assert outcome.code == 0, outcome.out + outcome.err
        rows = [(row["op"], row["case"]) for row in json.loads(file.read_text())["rows"]]
        assert rows == [("RMSNormFwdOp", "llama-3.1-8b-decode-float16")]
        assert outcome.out.endswith(f"0 of 1 rows fell behind {baseline}\n")


def test_ratios_of_another_device_are_no_baseline(tileops: Run, tmp_path: Path) -> None:
    baseline = tmp_path / "before.json"
    before = row("RMSNormFwdOp", "llama-3.1-8b-decode-float16")
    baseline.write_text(json.dumps(Results([H200], [before]).data()))
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--check", str(baseline))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"--check {baseline}: its rows are of NVIDIA H200, not of " in outcome.err


def test_rows_are_checked_against_those_of_their_device() -> None:
    both = Results([H200, {**H200, "device": "Abacus"}], [row("AFwdOp", "a", 1e-5)])
    both.rows.append({**row("AFwdOp", "a", 2e-5), "environment": 1})
    now = Results([H200], [row("AFwdOp", "a", 2e-5)])
    assert [fallen.before for fallen in regressions(now, both).regressions] == [2.0]
    assert regressions(Results([{**H200, "device": "Else"}], now.rows), both).judged == 0


def test_a_row_that_takes_too_long_is_left_out(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: time.sleep(5))
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--patience", "0.2")
    assert outcome.code == 1
    assert "left out: judging and timing it takes more than 0.2 s" in outcome.out


def test_published_rows_are_timed_in_place_of_workload_rows(tileops: Run, tmp_path: Path) -> None:
    dims = {"x_shape": [2, 64], "normalized_shape": [64]}
    each = {
        "case": "tiny", "dims": dims, "dtype": "float16", "peer_tileops_ms": "1",
        "best_other": "", "best_other_ms": "", "bytes": "",
    }  # fmt: skip
    table = published_table(
        tmp_path / "times.csv",
        {**each, "op": "RMSNormFwdOp"},
        {**each, "op": "RMSNormFwdOp", "case": "odd", "dims": {**dims, "centred": True}},
        {**each, "op": "NobodysFwdOp"},
    )
    results = tmp_path / "found.json"
    asked = ("bench", "--published", str(table))
    outcome = tileops(*asked, "--seconds", "0", "--json", str(results))
    assert outcome.code == 0, outcome.out + outcome.err
    line, *rest = outcome.out.splitlines()
    assert line.startswith("RMSNormFwdOp RMSNormFwdOp/tiny: ")
    assert rest == [
        "1 right, 0 wrong, 0 left out",
        "no call of ours: RMSNormFwdOp/odd: RMSNormFwdOp has no centred",
        "1 published rows are of ops that are not here",
    ]
    page = tileops("report", str(results), "--against", str(table))
    assert page.out.endswith(f": 1 rows, 1 beside {table}\n")
    none = tileops(*asked, "--row", "none")
    assert none.code == 2
    assert "no published row is of these labels and dtype" in none.err


def test_only_ops_with_a_tilelang_kernel(tileops: Run) -> None:
    outcome = tileops("bench", "--tilelang", "--family", "fft")
    assert outcome.code == 2
    assert "none of these ops has a TileLang kernel" in outcome.err


def test_what_is_wrong_is_not_timed(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.rms_norm
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: right(*args, **kw) + 1)
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE)
    assert outcome.code == 1
    assert "float16: wrong: RMSNormFwdOp(" in outcome.out
    assert outcome.out.endswith("0 right, 1 wrong, 0 left out\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("NoSuchFwdOp",), "no op is called NoSuchFwdOp"),
        (("--resume",), "--resume goes on with the file of --json: name one, as --json found.json"),
        (
            ("RMSNormFwdOp", *DECODE, "--junit", "/no/such/folder/file", "--seconds", "0"),
            "--junit /no/such/folder/file: No such file or directory",
        ),
        (("--mapping", "file"), "--mapping maps the rows of --published: give that too"),
        (("--tolerance", "0.2"), "--tolerance is of the ratios of --check: give that too"),
        (("--baselines", "."), "--baselines holds the functions of --against: give that too"),
        (
            ("--tolerance", "1"),
            "argument --tolerance: expected a number of at least 0 and below 1, got 1",
        ),
        (("--against", ""), "argument --against: expected names between commas, got ''"),
        (("--against", "torch,"), "argument --against: expected names between commas, got torch,"),
        (("--published", "/no/such/times.csv"), "No such file"),
        (("RMSNormFwdOp", "--graph"), "--graph replays CUDA graphs: give --device cuda"),
        (
            ("RMSNormFwdOp", "--json", "x.json", "--junit", "./x.json"),
            "--junit x.json is the file of --json: name another file",
        ),
        (("--family", "none"), "no family of implemented ops is called none; known: attention, "),
        (("RMSNormFwdOp", "--row", "none"), "no workload row is of these labels and dtype"),
        (("RMSNormFwdOp", *DECODE, "--device", "moon"), "device moon cannot be used"),
        (
            ("RMSNormFwdOp", *DECODE, "--json", "/no/such/folder/file.json"),
            "/no/such/folder/file.json: No such file or directory",
        ),
        (
            ("--json", "RMSNormFwdOp"),
            "--json RMSNormFwdOp: no file that ends in .json; to print the results, put --json",
        ),
    ],
)
def test_arguments_that_cannot_be_used(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops("bench", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_results_are_printed_apart_from_lines(tileops: Run) -> None:
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--seconds", "0", "--json")
    assert outcome.code == 0, outcome.err
    jsonschema.validate(outcome.data, SCHEMA)
    assert [row["op"] for row in outcome.data["rows"]] == ["RMSNormFwdOp"]
    assert "1 right, 0 wrong, 0 left out" in outcome.err


def test_a_target_serves(tileops: Run) -> None:
    quick = ("bench", "RMSNormFwdOp", *DECODE, "--seconds", "0", "--target", "builtin", "--json")
    assert tileops(*quick).data["rows"][0]["target"] == "builtin"


def test_a_file_that_cannot_be_written_is_told_before_anything_is_timed(tileops: Run) -> None:
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--junit", "/no/such/folder/file")
    assert (outcome.code, outcome.out) == (2, "")
