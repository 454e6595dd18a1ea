"""Host time of short functions: the least of many runs, taken in turn.

A busy machine disturbs some runs and not others; the least of many is what the code takes. Runs of
all functions alternate, so that a change of the machine's speed meets them alike.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

CALLS = 20


def least(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    settle: Callable[[], Any] = lambda: None,
) -> dict[str, float]:
    """Microseconds of one call of each function.

    Args:
        functions: what is timed, by name.
        repeats: how many runs of each.
        settle: what runs before each, such as a wait for the device.
    """
    found = dict.fromkeys(functions, float("inf"))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, function in functions.items():
                settle()
                start = time.perf_counter()
                for _ in range(CALLS):
                    function()
                found[name] = min(found[name], (time.perf_counter() - start) / CALLS * 1e6)
    finally:
        if was_enabled:
            gc.enable()
    return found
