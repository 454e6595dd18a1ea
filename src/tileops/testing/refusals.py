"""The generated calls that a target refuses, which tests leave out and a run counts.

A target refuses by an `OpNotAvailableError`. Where no target claims the device nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import torch

from tileops._core.targets import loading
from tileops._core.targets.registry import BUILTIN
from tileops._core.targets.selection import named_target
from tileops.errors import OpNotAvailableError
from tileops.testing.calling import class_of, parameters, placed
from tileops.testing.drawing import DrawnCall, drawn


@cache
def served(op: str, device: str = "cpu") -> tuple[DrawnCall, ...]:
    """The drawn calls of an op that the target of a device does not refuse.

    Args:
        op: its name.
        device: where the calls run.
    """
    return tuple(unrefused(drawn(op), device))


def unrefused(calls: Iterable[DrawnCall | None], device: str = "cpu") -> Iterator[DrawnCall]:
    """Those of some calls that are there and that the target of a device does not refuse."""
    loading.ensure_loaded()
    named = named_target(None, torch.device(device))
    asks = named is not None and named[0] != BUILTIN
    there = (call for call in calls if call is not None)
    return (call for call in there if not (asks and _is_refused(call, device)))


def _is_refused(call: DrawnCall, device: str) -> bool:
    """Whether a target refuses a call; what else is wrong with it is for the tests to find."""
    try:
        class_of(call.op)(**parameters(call, device))(**placed(call, device))
    except OpNotAvailableError:
        return True
    except Exception:
        return False
    return False


def told(ops: Iterable[str]) -> Iterator[str]:
    """A line for each op of which generated calls were refused.

    Args:
        ops: names of the ops that were tested.
    """
    for op in ops:
        every, left = len(drawn(op)), len(served(op))
        if left < every:
            yield f"{op}: {every - left} of {every} generated calls are refused by their target"
