"""Whether code runs for its trace rather than its result."""

from __future__ import annotations

from typing import Any

import torch

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def active_fake_mode() -> Any:
    """The fake-tensor mode under which this code runs, or None."""
    return torch._C._get_dispatch_mode(_FAKE)


def is_traced() -> bool:
    """Whether a compiler traces this code, or a fake-tensor mode is active."""
    return torch.compiler.is_compiling() or active_fake_mode() is not None
