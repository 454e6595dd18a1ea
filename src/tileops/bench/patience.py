"""A limit on how long one row may take: references are written to be right, not to be fast."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.1
"""Seconds after which an import is looked at again."""


class OutOfPatience(BaseException):
    """The time is over. No `Exception`: code that is stopped must not take it for its own."""


@contextmanager
def patience(seconds: float | None) -> Iterator[None]:
    """Stop what runs here after some time, at the next step that imports nothing.

    Only the main thread can be stopped; elsewhere nothing is limited. Where a library has run the
    code that is stopped, what it makes of that, an error without a text say, is not taken for its
    own.

    Args:
        seconds: after how long; never where absent.

    Raises:
        OutOfPatience: the time is over.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    is_over = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_over
        if not _importing(frame):
            is_over = True
            raise OutOfPatience
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:
        if is_over:
            raise OutOfPatience from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: one left half-imported stays broken."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
