"""Which name was perhaps meant where one is given that stands for nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import partial


def nearest(name: str, known: Iterable[str], most: int = 3) -> str:
    """`; did you mean A? Also near: B, C`, or nothing where no name is near.

    Neither case nor the suffix of op names counts.

    Args:
        name: the name that was given.
        known: the names there are.
        most: how many are told.
    """
    by_stem: dict[str, list[str]] = {}
    for word in sorted(known, reverse=True):  # of two as near a forward op wins
        by_stem.setdefault(_stem(word), []).append(word)
    stems = difflib.get_close_matches(_stem(name), by_stem, most)
    if not stems:
        return ""
    first, *others = (max(by_stem[stem], key=partial(_likeness, name)) for stem in stems)
    return f"; did you mean {first}?" + (f" Also near: {', '.join(others)}" if others else "")


def further(text: str, more: str) -> str:
    """A complaint with one more thing that it has to say, whether it asks already or not."""
    return f"{text} {more}" if text.endswith("?") else f"{text}; {more}"


def _likeness(name: str, word: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), word.lower()).ratio()


def _stem(name: str) -> str:
    return re.sub("(fwd|bwd)?op$", "", name.lower())
