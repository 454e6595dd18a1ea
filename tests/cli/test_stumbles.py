"""What newcomers ran into: outputs that take no more, files where ops belong, empty names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    assert outcome.stderr == "tileops show: error: no op is called ''\n"


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
