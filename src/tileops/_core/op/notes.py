"""Notes on exceptions that pass through unchanged."""

from __future__ import annotations

from contextlib import suppress


def add_note(error: BaseException, text: str) -> None:
    """Attach a note to an exception, on Python 3.10 as on later versions.

    One that takes no attributes goes without: what was raised matters more than where.
    """
    with suppress(Exception):
        error.__notes__ = [*getattr(error, "__notes__", ()), text]  # type: ignore[attr-defined]
