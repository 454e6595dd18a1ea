"""Calls that no body makes: those of finalisers and handlers, run by the interpreter in passing.

They run wherever a thread happens to be, perhaps inside the call of an op that has nothing to do
with them. Python does not mark such a frame: its code, or the arguments it was given, tell it
apart from what a body calls.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Collection, Iterator
from types import CodeType, FrameType

_GENERATOR = 0x20 | 0x80 | 0x200
"""Flags of the code of generators, coroutines and asynchronous generators."""


def is_in_passing(entries: Collection[CodeType]) -> bool:
    """Whether the call that runs was started in passing, within the one beneath it.

    Args:
        entries: the code in which calls of ops run.
    """
    return any(_interrupts(frame) for frame in _between(entries))


def _between(entries: Collection[CodeType]) -> Iterator[FrameType]:
    """The frames between the innermost call of an op and the next, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in entries:
        frame = frame.f_back
    frame = None if frame is None else frame.f_back
    while frame is not None and frame.f_code not in entries:
        yield frame
        frame = frame.f_back


def _interrupts(frame: FrameType) -> bool:
    """Whether the interpreter started this frame by itself."""
    code = frame.f_code
    if code.co_name == "__del__" or _is_closed(frame):
        return True
    hooks = (*gc.callbacks, sys.get_asyncgen_hooks().finalizer)
    if any(getattr(hook, "__code__", None) is code for hook in hooks):
        return True
    values = frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    return any(value is frame.f_back or _is_dead(value) for value in given if value is not None)


def _is_dead(value: object) -> bool:
    """Whether a value is a weak reference to what is gone, as its callback is given."""
    return isinstance(value, weakref.ref) and value() is None


def _is_closed(frame: FrameType) -> bool:
    """Whether the frame is a generator's that is being closed, as one that is dropped is."""
    error = sys.exc_info()[1]
    if not (frame.f_code.co_flags & _GENERATOR and isinstance(error, GeneratorExit)):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_frame is not frame:
        trace = trace.tb_next
    return trace is not None
