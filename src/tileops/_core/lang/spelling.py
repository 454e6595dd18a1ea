"""Which known word a name that stands for nothing was perhaps meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def suggest(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """A hint naming the closest known word, or nothing.

    Args:
        name: the name that stands for nothing.
        known: the words there are.
        cutoff: how alike they have to be, 1 where only equals are.
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
