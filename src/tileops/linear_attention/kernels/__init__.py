"""Kernel interfaces of the linear_attention family and their plain-torch implementations."""

from __future__ import annotations

from tileops.linear_attention.kernels.gradients import (
    StateRecurrenceBwdInterface,
    StateRecurrenceBwdPortableKernel,
)
from tileops.linear_attention.kernels.serving import (
    Gate,
    StateRecurrenceCall,
    StateRecurrenceFwdInterface,
    StateRecurrencePortableKernel,
)

__all__ = [
    "Gate",
    "StateRecurrenceBwdInterface",
    "StateRecurrenceBwdPortableKernel",
    "StateRecurrenceCall",
    "StateRecurrenceFwdInterface",
    "StateRecurrencePortableKernel",
]
