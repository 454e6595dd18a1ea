"""Kernel interfaces of the moe family and their plain-torch implementations, a module for each."""

from __future__ import annotations

from tileops.moe.kernels.grouped_gemm import (
    MoEGroupedGemmCall,
    MoEGroupedGemmFwdInterface,
    MoEGroupedGemmPortableKernel,
)

__all__ = ["MoEGroupedGemmCall", "MoEGroupedGemmFwdInterface", "MoEGroupedGemmPortableKernel"]
