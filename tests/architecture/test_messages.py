"""What `scripts/check_messages.py` counts as a sentence, and that it tells which were made."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_messages.py"
SOURCE = '''
"""A docstring of words."""

TABLE = {"a": "a text of a table"}


def judge(value: "int or text" = 3, wide: bool = False) -> str:
    """A docstring of words."""
    assert value, "an assertion of words"
    if value < 0:
        raise AssertionError("a fault of ours")
    return f"expected {'a wide text' if wide else 'a narrow text'}, got {value}"


def quiet() -> str:
    return "word" + "another-word" + " = "


def __repr__() -> str:
    return "a text for us"
'''


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_messages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_text_that_a_function_makes_is_a_sentence(script: ModuleType) -> None:
    found: list[tuple[str, int, str]] = []
    tree = script.Marking("some.py", found).visit(ast.parse(SOURCE))
    assert {text for _, _, text in found} == {"a wide text", "a narrow text", "expected …, got "}
    made = []

    def mark(number: int, text: str) -> str:
        made.append(found[number][2])
        return text

    names = {script.MARK: mark}
    exec(compile(tree, "some.py", "exec"), names)
    assert names["judge"](3) == "expected a narrow text, got 3"
    assert made == ["a narrow text", "expected …, got "]
