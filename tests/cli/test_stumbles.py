"""What newcomers ran into: outputs that take no more, files where ops belong, empty names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tileops._core import plugins
from tileops._core.spec import registry
from tileops._core.spec.model import Finding

Run = Callable[..., Any]


def test_full_device_is_one_clear_error() -> None:
    with Path("/dev/full").open("w") as full:
        outcome = subprocess.run(
            [sys.executable, "-m", "tileops.cli", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert outcome.returncode == 1
    message = "tileops list: error: cannot write the answer: No space left on device\n"
    assert outcome.stderr == message


def test_validate_of_a_file_points_to_its_flag(tileops: Run) -> None:
    outcome = tileops("validate", "mine.yaml")
    assert outcome.code == 2
    assert "mine.yaml is a file, not an op; try: --source mine.yaml" in outcome.err


def test_validate_takes_no_folder_as_source(tileops: Run, tmp_path: Path) -> None:
    outcome = tileops("validate", "--source", str(tmp_path))
    assert outcome.code == 2
    assert f"--source takes spec files, not folders: {tmp_path}" in outcome.err


def test_an_empty_name_is_shown_in_quotes(tileops: Run) -> None:
    outcome = tileops("show", "")
    assert outcome.code == 2
    assert "no op is called ''" in outcome.err


def test_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "tileops", "show", ""]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr == "tileops show: error: no op is called ''; `tileops list` lists all\n"


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_what_a_terminal_cannot_show_is_escaped(flag: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("Цель: 3", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tileops", "validate", "--source", str(path), *flag],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert r"\u0426\u0435\u043b\u044c" in done.stdout


def test_validate_says_when_an_allowed_package_is_not_there(tileops: Run, tmp_path: Path) -> None:
    outcome = tileops("validate", "RMSNormFwdOp", "--allow", "no_such_pack")
    assert outcome.code == 0
    warning = (
        "--allow no_such_pack: Python finds no such package here, so what it has is not checked"
    )
    assert outcome.err == f"{warning}\n"
    assert tileops("validate", "RMSNormFwdOp", "--allow", "json.decoder").err == ""


def test_show_lists_the_rows(tileops: Run) -> None:
    assert "workload rows: llama-3.1-8b-prefill, " in tileops("show", "RMSNormFwdOp").out


def test_an_op_without_a_class_leads_to_those_that_have_one(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileops._core.validate import code

    monkeypatch.setattr(code, "find_class", lambda spec: "it has no class")
    outcome = tileops("explain", "RMSNormFwdOp")
    assert outcome.code == 2
    hint = "`tileops validate RMSNormFwdOp` lists what is missing"
    assert f"RMSNormFwdOp is implemented, but it has no class; {hint}\n" in outcome.err


def test_an_op_of_a_file_that_does_not_load_leads_to_the_file(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Finding.of("norm/spec.yaml", "", 1, "found a tab")
    monkeypatch.setattr(registry, "load_problems", lambda: (problem,))
    err = tileops("show", "NoSuchOpFwdOp").err
    assert "no op is called NoSuchOpFwdOp" in err
    lost = "norm/spec.yaml could not be loaded: `tileops doctor` says why\n"
    assert err.endswith(lost)
    assert tileops("list").err == lost


def test_doctor_names_entry_points_that_nothing_reads(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [EntryPoint("acme", "acme_device", "tileops.backend")]
    monkeypatch.setattr(plugins, "_distributions", lambda: [("acme-device", points, None)])
    outcome = tileops("doctor")
    assert outcome.code == 1
    assert (
        "load problem: the entry point acme = acme_device of acme-device is of the group "
        "tileops.backend, which nothing reads; groups are tileops.ops, tileops.backends\n"
    ) in outcome.out


@pytest.mark.parametrize(
    ("words", "op"),
    [
        ("mla", "MultiHeadLatentAttentionDecodeWithKVCacheFwdOp"),
        ("gqa", "GroupedQueryAttentionDenseFwdOp"),
        ("sliding window", "GroupedQueryAttentionVarlenFwdOp"),
        ("swish", "SiluFwdOp"),
        ("top-k", "FusedTopKFwdOp"),
        ("batched matmul", "BmmFwdOp"),
    ],
)
def test_usual_names_find_ops(tileops: Run, words: str, op: str) -> None:
    found = tileops("list", "--json", *words.split()).data
    assert op in [row["op"] for row in found]
