"""`tileops new`: what it writes is whole and in form, and what it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops.cli.new import KINDS, rendered

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_written_and_told(tileops: Run, tmp_path: Path, kind: str) -> None:
    outcome = tileops("new", kind, "acme-wide-norms", "--into", str(tmp_path))
    assert outcome.code == 0, outcome.err
    root = tmp_path / "acme-wide-norms"
    written = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert written == set(rendered(kind, "acme-wide-norms"))
    assert "src/acme_wide_norms/__init__.py" in written
    assert all(f"  {name}\n" in outcome.out for name in written)
    assert f"pip install -e '{root}[test]'" in outcome.out
    if kind == "pack":
        (tmp_path / "acme-gone").symlink_to("nowhere")
        gone = tileops("new", kind, "acme-gone", "--into", str(tmp_path))
        assert gone.err.endswith("acme-gone is there already: remove it or choose another name\n")
    again = tileops("new", kind, "acme-wide-norms", "--into", str(tmp_path))
    assert (again.code, again.err) == (
        2,
        f"tileops new: error: {root} is there already: remove it or choose another name\n",
    )


def test_the_answer_is_data(tileops: Run, tmp_path: Path) -> None:
    data = tileops("new", "kernel", "acme", "--into", str(tmp_path), "--json").data
    assert data["root"] == str(tmp_path / "acme")
    assert "src/acme/kernels.py" in data["files"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["q", "acme-b2-norms", "a-long-name-of-several-words"])
def test_placeholders_are_filled_and_the_sources_are_in_form(
    kind: str, name: str, tmp_path: Path
) -> None:
    for path, text in rendered(kind, name).items():
        assert not re.search(r"[$]\w|[$][{]|PACKAGE", path + text), path
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    rules = "F,W,I,UP,B,D" if len(name) > 20 else "E,F,W,I,UP,B,D"
    ignored = [
        "--config",
        "lint.pydocstyle.convention='google'",
        "--ignore",
        "D107",
        "--per-file-ignores",
        "tests/*:D",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--line-length", "100",
         "--select", rules, *ignored, "src", "tests"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["op", "pack"])
def test_an_op_has_the_name_that_is_asked_for(tileops: Run, tmp_path: Path, kind: str) -> None:
    arguments = ("acme-gather", "--op", "GatherRowsFwdOp", "--into", str(tmp_path))
    assert tileops("new", kind, *arguments).code == 0
    package = tmp_path / "acme-gather" / "src" / "acme_gather"
    assert "class GatherRowsFwdOp(Op):" in (package / "ops.py").read_text(encoding="utf-8")
    spec = (package / "spec.yaml").read_text(encoding="utf-8")
    assert spec.startswith("GatherRowsFwdOp:\n  family: acme_gather\n")
    assert "def gather_rows(" in (package / "reference.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("op", "acme", "--op", "gather"), "--op gather is no name such as GatherRowsFwdOp"),
        (("op", "acme", "--op", "GemmFwdOp"), "GemmFwdOp is already defined in gemm/spec.yaml"),
        (("kernel", "acme", "--op", "GatherFwdOp"), "brings none: it serves RMSNormFwdOp until"),
        (("backend", "Acme"), "'Acme' is no name such as acme-norms"),
        (("backend", "../acme"), "'../acme' is no name such as acme-norms"),
        (("backend", "acme_x"), "'acme_x' is no name such as acme-norms"),
        (("backend", "class"), "'class' is a module or a keyword already"),
        (("kernel", "json"), "'json' is a module or a keyword already"),
        (("op", "ops"), "'ops' is a module of tileops, which no family may be called"),
        (("op", "test-norms"), "'test-norms' begins with 'test': pytest would take its classes"),
        (("pack", "a" * 61), "a name has at most 60 characters, not 61"),
        (("op", "acme", "--into", "/proc"), "cannot write /proc/acme: No such file or directory"),
        (("op", "gemm"), "GemmFwdOp is already defined in gemm/spec.yaml"),
        (("pack", "layer"), "LayerNormFwdOp is already defined in norm/spec.yaml"),
        (("bakend", "acme"), "invalid choice: 'bakend'"),
        (
            ("op", "acme", "--into", "/no/such/folder"),
            "--into /no/such/folder: the folder is not there; make it first",
        ),
        (("op", "acme", "--into", "/dev/null"), "--into /dev/null: the folder is no folder; name"),
        (
            ("op", "Acme Rows"),
            "no name such as acme-norms: lower-case words, joined by hyphens; try acme-rows",
        ),
    ],
)
def test_what_cannot_be_written_is_one_error(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops("new", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err
