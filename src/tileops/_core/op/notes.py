"""Notes on exceptions that pass through unchanged."""

from __future__ import annotations


def add_note(error: BaseException, text: str) -> None:
    """Attach a note to an exception, on Python 3.10 as on later versions."""
    error.__notes__ = [*getattr(error, "__notes__", ()), text]  # type: ignore[attr-defined]
