"""Whether TileLang is at hand, and what is said where it is not. Never imports it."""

from __future__ import annotations

import threading
import warnings
from functools import cache
from importlib.util import find_spec

MISSING = "needs TileLang, which is not installed; `pip install tileops[cuda]` brings it"
"""The refusal of an implementation that needs TileLang where it is missing."""

_warning_lock = threading.Lock()
_warned = False


@cache
def has_tilelang() -> bool:
    """Whether TileLang can be imported."""
    return find_spec("tilelang") is not None


def warn_stand_in(op: str, interface: str) -> None:
    """Say, once per process, that a portable implementation stands in for a TileLang one."""
    global _warned
    with _warning_lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        f"{op}: a portable implementation serves the kernel interface {interface!r} on CUDA, "
        "because TileLang is not installed; `pip install tileops[cuda]` brings it",
        RuntimeWarning,
        stacklevel=4,
    )
