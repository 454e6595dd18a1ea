"""Kernel interfaces of the gemm family and their implementations, a module for each kind."""

from __future__ import annotations

from tileops.gemm.kernels.batched import (
    BmmCall,
    BmmFP8Call,
    BmmFP8FwdInterface,
    BmmFP8PipelinedKernel,
    BmmFP8PortableKernel,
    BmmFwdInterface,
    BmmPipelinedKernel,
    BmmPortableKernel,
)
from tileops.gemm.kernels.dense import (
    TILES,
    TILES_OF_WEIGHTS,
    GemmCall,
    GemmFwdInterface,
    GemmPipelinedKernel,
    GemmPortableKernel,
)
from tileops.gemm.kernels.few_rows import GemmSplitKernel, GemvKernel
from tileops.gemm.kernels.grouped import (
    GROUP_TILES,
    GroupedGemmCall,
    GroupedGemmFwdInterface,
    GroupedGemmPipelinedKernel,
    GroupedGemmPortableKernel,
)
from tileops.gemm.kernels.packed import (
    PACKED_CUTS,
    GemmW4A16Call,
    GemmW4A16FewRowsKernel,
    GemmW4A16FwdInterface,
    GemmW4A16PortableKernel,
    GemmW4A16SplitKernel,
)
from tileops.gemm.kernels.scaled import (
    TILES_FP8,
    TILES_FP8_BY_ROW,
    GemmFp8Call,
    GemmFp8FwdInterface,
    GemmFp8PipelinedKernel,
    GemmFp8PortableKernel,
    GemmInt8W8A8Call,
    GemmInt8W8A8FwdInterface,
    GemmInt8W8A8PortableKernel,
)

__all__ = [
    "GROUP_TILES",
    "PACKED_CUTS",
    "BmmCall",
    "BmmFP8Call",
    "BmmFP8FwdInterface",
    "BmmFP8PipelinedKernel",
    "BmmFP8PortableKernel",
    "BmmFwdInterface",
    "BmmPipelinedKernel",
    "BmmPortableKernel",
    "GemmCall",
    "GemmFp8Call",
    "GemmFp8FwdInterface",
    "GemmFp8PipelinedKernel",
    "GemmFp8PortableKernel",
    "GemmFwdInterface",
    "GemmInt8W8A8Call",
    "GemmInt8W8A8FwdInterface",
    "GemmInt8W8A8PortableKernel",
    "GemmPipelinedKernel",
    "GemmPortableKernel",
    "GemmSplitKernel",
    "GemmW4A16Call",
    "GemmW4A16FewRowsKernel",
    "GemmW4A16FwdInterface",
    "GemmW4A16PortableKernel",
    "GemmW4A16SplitKernel",
    "GroupedGemmCall",
    "GroupedGemmFwdInterface",
    "GroupedGemmPipelinedKernel",
    "GroupedGemmPortableKernel",
    "GemvKernel",
    "TILES",
    "TILES_FP8",
    "TILES_FP8_BY_ROW",
    "TILES_OF_WEIGHTS",
]
