"""What an import loads, seen from a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "tilelang", "tvm", "numpy", "yaml", "safetensors", "tokenizers"}
REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def modules_after(root: Path, program: str) -> set[str]:
    """Names of all modules in memory after `program` ran in a new process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{program}\n{REPORT}"],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def heavy_after(root: Path, program: str) -> set[str]:
    """Heavy packages in memory after `program` ran in a new process."""
    return HEAVY & {name.partition(".")[0] for name in modules_after(root, program)}


@pytest.mark.parametrize("package", ["torch", "yaml"])
def test_the_measure_sees_a_heavy_import(root: Path, package: str) -> None:
    assert package in heavy_after(root, f"import tileops, {package}")


def test_import_tileops_loads_nothing_heavy(root: Path) -> None:
    assert not heavy_after(root, "import tileops")


def test_import_tileops_loads_no_machinery(root: Path) -> None:
    loaded = {name for name in modules_after(root, "import tileops") if name.startswith("tileops.")}
    assert loaded <= {"tileops.errors"}


def test_specs_load_without_torch(root: Path) -> None:
    program = "import tileops.manifest as m; assert len(m.specs()) > 5"
    assert heavy_after(root, program) <= {"yaml"}


def test_static_validation_needs_no_torch(root: Path) -> None:
    program = (
        "import tileops.manifest as m\n"
        "m.validate(source={'NoSuchFwdOp': {'family': 'norm', 'status': 'spec-only'}})"
    )
    assert heavy_after(root, program) <= {"yaml"}


@pytest.mark.parametrize("command", ["['--help']", "['list']", "['schema']"])
def test_commands_that_only_read_load_no_torch(root: Path, command: str) -> None:
    program = (
        "import contextlib, io\nfrom tileops.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({command})"
    )
    assert heavy_after(root, program) <= {"yaml"}


def test_ops_and_construction_load_no_tilelang(root: Path) -> None:
    program = "from tileops.norm import RMSNormFwdOp\nRMSNormFwdOp(normalized_shape=[64])"
    assert "torch" in (heavy := heavy_after(root, program))
    assert not heavy & {"tilelang", "tvm"}


def test_import_backend_loads_no_entry_point(root: Path) -> None:
    program = (
        "import torch  # reads entry points of its own\n"
        "import importlib.metadata as metadata\n"
        "def refuse(*args, **kwargs): raise SystemExit('entry points were read')\n"
        "metadata.entry_points = refuse\n"
        "import tileops.backend"
    )
    modules_after(root, program)
