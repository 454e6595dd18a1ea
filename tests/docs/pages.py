"""The blocks of documents, and the tests that their tables name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(?P<info>[^\n]*)\n(?P<body>.*?)^\1```", re.DOTALL | re.MULTILINE)
NODE = re.compile(r"`(?P<file>[\w./-]+\.(?:py|yaml))::(?P<test>\w+)`")


def node(text: str, within: str = "tests/op") -> tuple[Path, str]:
    """The file and the function of a node id in a table; the folder `within` goes without saying.

    In place of a test, a table may name a spec of the corpus by its file and its key.
    """
    match = NODE.fullmatch(text)
    assert match, f"{text!r} is no node id"
    near = ROOT / within / match["file"]
    return near if near.exists() else ROOT / match["file"], match["test"]


def assert_proof(text: str, within: str) -> None:
    """A node id names a test that pytest collects, or a spec of the corpus."""
    path, name = node(text, within)
    if path.suffix == ".yaml":
        assert path.is_relative_to(ROOT / "tests" / "spec_cases")
        assert re.search(rf"^{name}:", path.read_text(encoding="utf-8"), re.MULTILINE), text
    else:
        assert path.name.startswith("test_")
        assert name.startswith("test_")
        assert name in functions(path), text


@cache
def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def all_fences(path: Path) -> Iterator[tuple[list[str], str]]:
    """The words of the info string, and the body without its indent."""
    for match in FENCE.finditer(path.read_text(encoding="utf-8")):
        indent = len(match[1])
        body = "\n".join(line[indent:] for line in match["body"].splitlines())
        yield match["info"].split(), body


def fences(path: Path, language: str) -> Iterator[tuple[list[str], str]]:
    """The blocks in a language, with the remaining words of the info string."""
    for words, body in all_fences(path):
        if words[:1] == [language]:
            yield words[1:], body
