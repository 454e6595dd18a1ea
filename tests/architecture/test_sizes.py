"""Size limits: what does not fit is cut along an idea, not squeezed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 600
FACADE_LINES = 120
YAML_LINES = 800
FUNCTION_LINES = 60
PROGRAM_BUILDER_LINES = 120
FACADES = ("manifest/__init__.py", "manifest/primitives.py", "backend.py", "kernels.py", "ops.py")


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of every outermost function; what it holds counts as part of it."""

    def visit(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child
            else:
                yield from visit(child)

    for found in visit(ast.parse(path.read_text(encoding="utf-8"))):
        yield found.name, (found.end_lineno or found.lineno) - found.lineno + 1


def holds_programs(path: Path, package: Path) -> bool:
    parts = path.relative_to(package).parts
    return parts[0] == "_programs" or "programs" in parts or path.name == "programs.py"


def test_modules_are_short(package: Path) -> None:
    long = {
        str(path.relative_to(package)): lines
        for path in package.rglob("*.py")
        if (lines := line_count(path)) > MODULE_LINES
    }
    assert not long


def test_test_modules_are_short(root: Path) -> None:
    long = {
        str(path.relative_to(root)): lines
        for path in (root / "tests").rglob("*.py")
        if (lines := line_count(path)) > MODULE_LINES
    }
    assert not long


def test_facades_are_short(package: Path) -> None:
    long = {
        name: lines
        for name in FACADES
        if (package / name).exists() and (lines := line_count(package / name)) > FACADE_LINES
    }
    assert not long


def test_spec_files_are_short(package: Path) -> None:
    long = {
        str(path.relative_to(package)): lines
        for path in package.rglob("*.yaml")
        if (lines := line_count(path)) > YAML_LINES
    }
    assert not long


def test_functions_are_short(package: Path) -> None:
    long = {}
    for path in package.rglob("*.py"):
        limit = PROGRAM_BUILDER_LINES if holds_programs(path, package) else FUNCTION_LINES
        for name, lines in functions(path):
            if lines > limit:
                long[f"{path.relative_to(package)}::{name}"] = lines
    assert not long


def test_the_measure_sees_nested_and_method_lengths(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "class A:\n    def b(self):\n        def c():\n            pass\n        c()\n"
    )
    assert list(functions(sample)) == [("b", 4)]
