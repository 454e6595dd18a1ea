"""The blocks of documents, and the tests that their tables name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(?P<info>[^\n]*)\n(?P<body>.*?)^\1```", re.DOTALL | re.MULTILINE)
NODE = re.compile(r"`(?P<file>[\w./-]+\.py)::(?P<test>\w+)`")


def node(text: str) -> tuple[Path, str]:
    """The file and the function of a node id in a table; `tests/op` goes without saying."""
    match = NODE.fullmatch(text)
    assert match, f"{text!r} is no node id"
    file = match["file"]
    return ROOT / file if "/" in file else ROOT / "tests" / "op" / file, match["test"]


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
