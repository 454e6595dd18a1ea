"""The import contracts of pyproject.toml hold, and a breach is reported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint(source: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of `config` on the package below `source`."""
    program = (
        "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(config), "--no-cache"],
        env={"PYTHONPATH": str(source), "PATH": "", "HOME": str(source)},
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_are_kept(root: Path) -> None:
    result = lint(root / "src", root / "pyproject.toml")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("_core/lang/nodes.py", "from tileops._core.spec import model", "core"),
        ("_core/op/__init__.py", "import tileops.cli.main", "packages"),
        ("_core/spec/model.py", "import torch", "static parts reach neither torch nor TileLang"),
        ("norm/ops/rows.py", "from tileops.gemm import ops", "packages"),
        ("norm/reference.py", "from tileops import errors", "a reference imports nothing"),
        ("norm/kernels/rows.py", "from tileops.norm import reference", "nothing that is judged"),
    ],
)
def test_a_breach_is_reported(
    root: Path, tmp_path: Path, module: str, line: str, contract: str
) -> None:
    shutil.copytree(root / "src" / "tileops", tmp_path / "tileops")
    breached = tmp_path / "tileops" / module
    breached.write_text(
        breached.read_text() + f"\n\ndef _breach() -> None:\n    {line}\n", encoding="utf-8"
    )
    result = lint(tmp_path, root / "pyproject.toml")
    assert result.returncode == 1
    broken = [text for text in result.stdout.splitlines() if text.endswith("BROKEN")]
    assert any(text.startswith(contract) for text in broken), result.stdout + result.stderr
