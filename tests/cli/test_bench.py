"""`tileops bench`: rows of many ops, judged, timed, kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops.norm import reference

Run = Callable[..., Any]

DECODE = ("--rows", "llama-3.1-8b-decode", "--dtype", "float16")


def test_rows_are_timed_and_kept(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--json", str(file))
    assert outcome.code == 0, outcome.out + outcome.err
    line, summary = outcome.out.splitlines()
    assert line.startswith("RMSNormFwdOp llama-3.1-8b-decode-float16: ")
    assert line.endswith(" calls), by RMSNormPortableKernel")
    assert summary == "1 right, 0 wrong, 0 left out"
    report = json.loads(file.read_text())
    assert report["environment"].keys() == {"device", "python", "tileops", "torch", "tilelang"}
    (row,) = report["rows"]
    assert (row["op"], row["state"], row["bytes"]) == ("RMSNormFwdOp", "right", 3 * 4096 * 2)


def test_a_family_goes_in_order_of_size(tileops: Run) -> None:
    rows = ("--rows", "llama-3.1-70b-decode", "llama-3.1-8b-decode", "--dtype", "float16")
    outcome = tileops("bench", "--family", "norm", *rows)
    assert outcome.code == 0, outcome.out + outcome.err
    lines = [line.partition(": ")[0] for line in outcome.out.splitlines()[:-1]]
    small = lines.index("RMSNormFwdOp llama-3.1-8b-decode-float16")
    assert small < lines.index("RMSNormFwdOp llama-3.1-70b-decode-float16")


def test_a_used_up_budget_begins_no_row(tileops: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = tileops("bench", "RMSNormFwdOp", *DECODE, "--budget", "0", "--json", str(file))
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "0 right, 0 wrong, 1 left out",
        "left out 1: the budget of 0 s is used up",
    ]
    (row,) = json.loads(file.read_text())["rows"]
    assert row["state"] == "left out"


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
        (("--family", "none"), "no implemented op is of family none"),
        (("RMSNormFwdOp", "--rows", "none"), "no workload row is of these labels and dtype"),
        (("RMSNormFwdOp", *DECODE, "--device", "moon"), "device moon cannot be used"),
        (
            ("RMSNormFwdOp", *DECODE, "--json", "/no/such/folder/file"),
            "--json /no/such/folder/file: No such file or directory",
        ),
    ],
)
def test_arguments_that_cannot_be_used(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops("bench", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
