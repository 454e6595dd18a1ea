"""Kernel interfaces of the moe family and their plain-torch implementations, a module for each."""

from __future__ import annotations

from tileops.moe.kernels.grouped_gemm import (
    MoEGroupedGemmCall,
    MoEGroupedGemmFwdInterface,
    MoEGroupedGemmPipelinedKernel,
    MoEGroupedGemmPortableKernel,
)
from tileops.moe.kernels.indexed import (
    IndexedExpertMLPCall,
    IndexedExpertMLPFwdInterface,
    IndexedExpertMLPPortableKernel,
)
from tileops.moe.kernels.permute import (
    MoEPermuteAlignCall,
    MoEPermuteAlignFwdInterface,
    MoEPermuteAlignPortableKernel,
    MoEPostPermuteCall,
    MoEPostPermuteFwdInterface,
    MoEPostPermutePortableKernel,
    MoEPrePermuteCall,
    MoEPrePermuteFwdInterface,
    MoEPrePermutePortableKernel,
)
from tileops.moe.kernels.top_k import (
    FusedTopKCall,
    FusedTopKFwdInterface,
    FusedTopKPortableKernel,
)

__all__ = [
    "FusedTopKCall",
    "FusedTopKFwdInterface",
    "FusedTopKPortableKernel",
    "IndexedExpertMLPCall",
    "IndexedExpertMLPFwdInterface",
    "IndexedExpertMLPPortableKernel",
    "MoEGroupedGemmCall",
    "MoEGroupedGemmFwdInterface",
    "MoEGroupedGemmPipelinedKernel",
    "MoEGroupedGemmPortableKernel",
    "MoEPermuteAlignCall",
    "MoEPermuteAlignFwdInterface",
    "MoEPermuteAlignPortableKernel",
    "MoEPostPermuteCall",
    "MoEPostPermuteFwdInterface",
    "MoEPostPermutePortableKernel",
    "MoEPrePermuteCall",
    "MoEPrePermuteFwdInterface",
    "MoEPrePermutePortableKernel",
]
