"""Kernel interfaces of the linear_attention family and their implementations."""

from __future__ import annotations

from tileops.linear_attention.kernels.chunks import (
    DeltaChunksKernel,
    StateRecurrenceChunksKernel,
)
from tileops.linear_attention.kernels.delta_chunks import (
    DeltaChunksBwdInterface,
    DeltaChunksBwdPortableKernel,
    DeltaChunksCall,
    DeltaChunksFwdInterface,
    DeltaChunksPortableKernel,
)
from tileops.linear_attention.kernels.gated_chunks import (
    GatedChunksBwdInterface,
    GatedChunksBwdPortableKernel,
    GatedChunksCall,
)
from tileops.linear_attention.kernels.gradients import (
    StateRecurrenceBwdInterface,
    StateRecurrenceBwdPortableKernel,
)
from tileops.linear_attention.kernels.recurrence import CHUNK
from tileops.linear_attention.kernels.serving import (
    Gate,
    StateRecurrenceCall,
    StateRecurrenceFwdInterface,
    StateRecurrencePortableKernel,
)
from tileops.linear_attention.kernels.tokens import StateRecurrenceTokensKernel

__all__ = [
    "CHUNK",
    "DeltaChunksBwdInterface",
    "DeltaChunksBwdPortableKernel",
    "DeltaChunksCall",
    "DeltaChunksFwdInterface",
    "DeltaChunksKernel",
    "DeltaChunksPortableKernel",
    "Gate",
    "GatedChunksBwdInterface",
    "GatedChunksBwdPortableKernel",
    "GatedChunksCall",
    "StateRecurrenceBwdInterface",
    "StateRecurrenceBwdPortableKernel",
    "StateRecurrenceCall",
    "StateRecurrenceChunksKernel",
    "StateRecurrenceFwdInterface",
    "StateRecurrencePortableKernel",
    "StateRecurrenceTokensKernel",
]
