"""Whose code raised, and where: the reference of an op, one of its kernels, or neither.

What is told is the last line of that code which was reached, not of what it called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FrameType

from tileops._core.dispatch.kernel import Kernel


class ReferenceFault(Exception):
    """A reference that raises, or gives another form than the spec declares, judges nothing."""


def raised(who: str, error: BaseException, is_theirs: Callable[[FrameType], bool]) -> str:
    """Who raised what, and where in their own code, as far as that was reached.

    Args:
        who: the subject of the sentence.
        error: what was raised.
        is_theirs: whether a frame runs their code.
    """
    places = [place for frame, place in _frames(error) if is_theirs(frame)]
    first, *more = f"{type(error).__name__}: {error}".split("\n")
    place = f" ({places[-1]})" if places else ""
    return "\n".join([f"{who} raised {first}{place}", *more])


def kernel_fault(error: BaseException) -> str | None:
    """Which kernel raised an error, and where; None where no kernel ran."""
    kernels = [kernel for frame, _ in _frames(error) if (kernel := _kernel(frame)) is not None]
    if not kernels:
        return None
    last = kernels[-1]
    own = {base.__module__ for base in type(last).__mro__ if base not in Kernel.__mro__}

    def is_theirs(frame: FrameType) -> bool:
        return frame.f_globals.get("__name__") in own

    return raised(type(last).__name__, error, is_theirs)


def _kernel(frame: FrameType) -> Kernel | None:
    found = frame.f_locals.get("self")
    return found if isinstance(found, Kernel) else None


def _frames(error: BaseException) -> Iterator[tuple[FrameType, str]]:
    """The frames that an error went through, the outermost first, with the line of each."""
    entry = error.__traceback__
    while entry is not None:
        file = os.path.relpath(entry.tb_frame.f_code.co_filename)
        yield entry.tb_frame, f"{file}:{entry.tb_lineno}"
        entry = entry.tb_next
