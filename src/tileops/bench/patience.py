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
    """The time is over. Not an `Exception`, so that the stopped code does not handle it as one."""


@contextmanager
def patience(seconds: float | None) -> Iterator[None]:
    """Stop the code of the block after some time, but not while it imports a module.

    Only the main thread can be stopped; in others there is no limit. A library that ran the stopped
    code may turn the stop into an error of its own; that error is replaced by `OutOfPatience`.

    Args:
        seconds: after how long; no limit where absent.

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
