"""The table of mutants fits the sources and the tests; `run.py` is what runs it."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
OP_TESTS = HERE.parent / "op"


def load(name: str) -> ModuleType:
    """A module of this folder, by its file."""
    spec = importlib.util.spec_from_file_location(f"mutants_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    saved, known = list(sys.path), set(sys.modules)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = saved
        for left in {"table", "below", "mutant"} - known:
            sys.modules.pop(left, None)
    return module


run = load("run")
MUTANTS = run.MUTANTS


@cache
def functions(file: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((OP_TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def named(mutant: object) -> str:
    return f"{mutant.module}:{mutant.line}->{mutant.becomes}"  # type: ignore[attr-defined]


def test_rows_are_many_and_distinct() -> None:
    assert len(MUTANTS) >= 40
    assert len({(m.module, m.line, m.nth, m.becomes) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=named)
def test_line_stands_where_the_row_says(mutant) -> None:
    found = run.places(mutant)
    assert found
    assert (mutant.nth is None) == (len(found) == 1), "nth is given where the line stands twice"
    faulty = run.source(mutant)
    ast.parse(faulty)
    assert faulty != (run.PACKAGE / mutant.module).read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=named)
def test_named_tests_exist(mutant) -> None:
    assert mutant.tests
    for name in mutant.tests.split():
        file, _, function = name.partition("::")
        assert function in functions(file)


JUDGE = """
import torch, run
tests = "test_targets.py::test_several_targets_claim_the_device"
fault = run.Mutant("if len(claiming) > 1:", "if False:", tests, None, "targets/selection.py")
harmless = fault._replace(becomes="if not len(claiming) <= 1:")
for mutant in (fault, harmless, fault._replace(tests="test_targets.py::test_unknown")):
    print(*run.judge(mutant)[1:])
"""


@pytest.mark.slow
def test_a_fault_is_caught_and_a_harmless_change_is_not() -> None:
    """The runner itself: a line that matters, one that does not, and a test that is not there."""
    found = subprocess.run(
        [sys.executable, "-c", JUDGE], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert found[0].startswith("True caught")
    assert found[1].startswith("False SURVIVED (exit code 0)")
    assert found[2].startswith("False SURVIVED (exit code 4)")
