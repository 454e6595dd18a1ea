"""The blocks of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(?P<info>[^\n]*)\n(?P<body>.*?)^\1```", re.DOTALL | re.MULTILINE)


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
