"""Whether code runs for its trace rather than its result, and code that is never traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch._guards import TracingContext

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_SKIPPED = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def active_fake_mode() -> Any:
    """The fake-tensor mode under which this code runs, or None."""
    return torch._C._get_dispatch_mode(_FAKE)


def never_traced(function: Callable[..., Any]) -> None:
    """Keep a compiler from tracing a function, and what it calls, where an eager call reaches it.

    A compiler gives up on a frame in which an error was raised. That frame then runs as it is, but
    each frame that it calls would be compiled. The same as `torch.compiler.disable`, which would
    import the compiler.
    """
    eval_frame.set_code_exec_strategy(function.__code__, _SKIPPED)


def is_traced() -> bool:
    """Whether a compiler traces this code, or a fake-tensor mode is active."""
    return torch.compiler.is_dynamo_compiling() or active_fake_mode() is not None


def is_compiled() -> bool:
    """Whether a compiler traces this code, be it by running it on fake tensors as an export does.

    The flag of torch does not tell: it is up in every thread while one of them compiles.
    """
    return torch.compiler.is_dynamo_compiling() or (
        active_fake_mode() is not None and TracingContext.try_get() is not None
    )


# A compiler that gave up on the frame of a caller would make constants of them.
never_traced(is_traced)
never_traced(is_compiled)
