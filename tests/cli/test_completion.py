"""`tileops completion`: what may stand for a word, and the shells that ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops.cli.completion import SCRIPTS, candidates

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sh", ["show"]),
        ("--v", ["--version"]),
        ("nosuch ", []),
        ("run --ro", ["--row"]),
        ("show RMSNormF", ["RMSNormFwdOp"]),
        ("run RMSNormFwdOp --row few", ["few-rows-65536"]),
        ("explain RMSNormFwdOp --device c", ["cpu", "cuda"]),
        ("bench --dtype bfl", ["bfloat16"]),
        ("list --family rop", ["rope"]),
        ("list --status i", ["implemented"]),
        ("new k", ["kernel"]),
        ("completion z", ["zsh"]),
        ("validate --source x", []),
        ("bench --graph SinF", ["SinFwdOp"]),
        ("docs ", []),
    ],
)
def test_what_may_follow(typed: str, found: list[str]) -> None:
    assert candidates(typed.split(" ")) == found


def test_scripts_and_words_are_printed(tileops: Run) -> None:
    assert tileops("completion", "bash").out == SCRIPTS["bash"]
    assert tileops("completion", "fish", "run", "--ta").out == "--target\n"
    assert tileops("completion", "zsh", "docs", "").out == ""


ASKED = {
    "bash": (
        'eval "$(tileops completion bash)"; COMP_WORDS=(tileops list --fam); COMP_CWORD=2; '
        '_tileops; echo "${COMPREPLY[@]}"'
    ),
    "fish": "tileops completion fish | source; complete --do-complete='tileops list --fam'",
    "zsh": (
        'compdef() {}; compadd() { echo "${(@P)2}" }; eval "$(tileops completion zsh)"; '
        "words=(tileops list --fam); CURRENT=3; _tileops"
    ),
}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    """In whichever of the shells this machine has; bash always."""
    program = shutil.which(shell)
    if program is None and shell != "bash":
        return
    command = tmp_path / "tileops"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tileops "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(program), "-c", ASKED[shell]],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["--family"], done.stderr
