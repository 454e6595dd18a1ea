"""Which known word a name that stands for nothing was perhaps meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def suggest(name: str, known: Collection[str]) -> str:
    """A hint naming the closest known word, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
