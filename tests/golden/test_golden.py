"""Generated source of one op per feature, kept as text so that a change of it is seen.

`make golden` rewrites the files; the difference then shows in the commit that causes it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tileops._core.codegen.unit import generate
from tileops._core.runtime import names
from tileops._core.runtime.plan import plan_of
from tileops._core.spec.content import file_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.source import Source

HERE = Path(__file__).parent
SPECS = HERE / "specs.yaml"


def manifest() -> Manifest:
    source = Source("golden/specs.yaml", package="tests.golden")
    return Manifest().adding([file_content(SPECS, source)])


OPS = manifest().names


def generated(name: str) -> str:
    spec = manifest().lookup(name)
    assert spec is not None
    return generate(plan_of(spec))


@pytest.mark.parametrize("name", OPS)
def test_source_is_as_expected(name: str, rewrite: bool) -> None:
    path, text = HERE / f"{name}.py.txt", generated(name)
    if rewrite:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_every_expected_file_belongs_to_an_op() -> None:
    assert {path.name.removesuffix(".py.txt") for path in HERE.glob("*.py.txt")} == set(OPS)


@pytest.mark.parametrize("name", OPS)
def test_source_says_when_it_was_made_nowhere(name: str) -> None:
    assert generated(name) == generated(name)


@pytest.mark.parametrize("name", OPS)
def test_source_refers_to_what_it_may_refer_to(name: str) -> None:
    tree = ast.parse(generated(name))
    [imported] = [n for n in tree.body if isinstance(n, ast.ImportFrom) and "runtime" in n.module]
    assert {alias.name for alias in imported.names} <= set(names.__all__)


def test_source_is_clean() -> None:
    """Ruff finds nothing but long lines, quotes and lambdas that a reader may be spared."""
    files = sorted(str(path) for path in HERE.glob("*.py.txt"))
    for path in files:
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,B,PLE",
                   "--ignore", "E501", "--stdin-filename", "unit.py", "-"]  # fmt: skip
        text = Path(path).read_text(encoding="utf-8")
        found = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert found.returncode == 0, f"{path}\n{found.stdout}"
