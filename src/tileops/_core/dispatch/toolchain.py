"""What device programs are made with and for. Never imports TileLang.

Whether it is at hand and what is said where it is not, the architecture, the names of dtypes.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tileops._core.locks import make_lock
from tileops.errors import installing

if TYPE_CHECKING:
    import torch

HOPPER = 90
"""The architecture that programs of the tree are made for, 10 · major + minor."""

MISSING = f"needs TileLang, which is not installed; {installing('cuda')} brings it"
"""The refusal of an implementation that needs TileLang where it is missing."""

_warning_lock = make_lock()
_warned = False


@cache
def has_tilelang() -> bool:
    """Whether TileLang can be imported."""
    return find_spec("tilelang") is not None


def missing_for(module: str) -> str:
    """The refusal for a class of a module; one of a package may have meant another compiler."""
    if module.partition(".")[0] == __name__.partition(".")[0]:
        return MISSING
    return f"{MISSING}; a class that uses another compiler sets needs_tilelang = False"


def dtype_name(dtype: torch.dtype) -> str:
    """The name of an element type in programs."""
    return str(dtype).removeprefix("torch.")


def warn_stand_in(op: str, interface: str) -> None:
    """Say, once per process, that a portable implementation stands in for a TileLang one."""
    global _warned
    with _warning_lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        f"{op}: a portable implementation serves the kernel interface {interface!r} on CUDA, "
        f"because TileLang is not installed; {installing('cuda')} brings it",
        RuntimeWarning,
        stacklevel=4,
    )
