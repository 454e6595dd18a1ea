"""Whether code runs for its trace rather than its result."""

from __future__ import annotations

import torch

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def is_traced() -> bool:
    """Whether a compiler traces this code, or a fake-tensor mode is active."""
    return torch.compiler.is_compiling() or torch._C._get_dispatch_mode(_FAKE) is not None
