"""What all commands share: help, exit codes, one clear error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tileops.cli import list_ops
from tileops.cli.main import COMMANDS
from tileops.cli.output import table

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]


def test_help_names_every_command(tileops: Run) -> None:
    outcome = tileops("--help")
    assert outcome.code == 0
    for command in COMMANDS:
        assert f"\n    {command.NAME}" in outcome.out
        assert command.SUMMARY in outcome.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_every_command_has_help(tileops: Run, command: object) -> None:
    outcome = tileops(command.NAME, "--help")
    assert outcome.code == 0
    assert (command.__doc__ or "").splitlines()[0] in outcome.out


def test_version_is_that_of_the_distribution(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: f"1.2.3 of {name}")
    outcome = tileops("--version")
    assert outcome.code == 0
    assert outcome.out == "tileops 1.2.3 of tileops\n"


def test_version_of_a_bare_checkout_says_so(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    outcome = tileops("--version")
    assert outcome.code == 0
    assert outcome.out == "tileops, a checkout that is not installed\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("bogus",), "invalid choice: 'bogus'"),
        (("show",), "required: OP"),
        (("list", "--bogus"), "unrecognized arguments: --bogus"),
        (("list", "--status", "done"), "invalid choice: 'done'"),
        (("list", "--family", "nrom"), "no family is called nrom; known: "),
        (("show", "rmsnorm"), "no op is called rmsnorm; nearest: RMSNormFwdOp"),
        (("show", "qqqq"), "no op is called qqqq\n"),
        (("validate", "NormFwdOp"), "no op is called NormFwdOp"),
        (("validate", "--source", "nowhere.yaml"), "no such file: nowhere.yaml"),
        (("validate", "--branch-limit", "0"), "expected at least 1, got 0"),
        (("demo", "a", "b", "--file", "c"), "not both"),
        (("demo", "--file", "nowhere.txt"), "nowhere.txt: No such file"),
        (("demo", "alone"), "two are needed, got 1"),
        (("demo", "--device", "cuda:99"), "device cuda:99 cannot be used"),
    ],
)
def test_unusable_arguments_are_one_error_and_exit_2(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert outcome.err.count("error:") == 1
    assert "Traceback" not in outcome.err


def test_an_unusable_file_is_one_error(tileops: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    outcome = tileops("demo", "--file", str(empty))
    assert outcome.code == 2
    assert outcome.err == f"tileops demo: error: {empty}: holds no sentence\n"


def test_a_reader_that_leaves_is_no_error() -> None:
    program = "import sys; from tileops.cli import main; sys.exit(main(['schema']))"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert err == ""


def test_module_and_script_are_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tileops.cli", "list", "--family", "norm"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RMSNormFwdOp" in done.stdout


def test_table_aligns_columns_and_ends_lines_clean() -> None:
    text = table(("A", "COUNT", "C"), [("long", "1", ""), ("x", "100", "y")], right=frozenset({1}))
    assert text == "A     COUNT  C\nlong      1\nx       100  y"


def test_list_prints_names_sorted(tileops: Run) -> None:
    outcome = tileops(list_ops.NAME)
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["OP", "FAMILY", "STATUS", "PACKAGE", "MIRRORS"]
    names = [line.split()[0] for line in lines[1:]]
    assert names == sorted(names)
    assert {"RMSNormFwdOp", "GemmFwdOp"} <= set(names)


def test_list_filters_and_prints_data(tileops: Run) -> None:
    outcome = tileops("list", "--family", "gemm", "--status", "implemented", "--json")
    assert {row["op"] for row in outcome.data} >= {"GemmFwdOp"}
    assert {(row["family"], row["status"]) for row in outcome.data} == {("gemm", "implemented")}
