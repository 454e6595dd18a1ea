"""Notes on exceptions that pass through unchanged."""

from __future__ import annotations

from contextlib import suppress


def add_note(error: BaseException, text: str) -> None:
    """Attach a note to an exception, on Python 3.10 as on later versions.

    An exception that takes no attributes gets no note: what was raised matters more than where. A
    note that is there already, as after a recursion, is not repeated.
    """
    with suppress(Exception):
        known = getattr(error, "__notes__", ())
        if text not in known:
            error.__notes__ = [*known, text]  # type: ignore[attr-defined]
