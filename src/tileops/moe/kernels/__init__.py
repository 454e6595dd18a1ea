"""Kernel interfaces of the moe family and their implementations, a module for each subject."""

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
    IndexedExpertMLPGroupedKernel,
    IndexedExpertMLPPortableKernel,
)
from tileops.moe.kernels.permute import (
    MoEPermuteAlignCall,
    MoEPermuteAlignCountingKernel,
    MoEPermuteAlignFwdInterface,
    MoEPermuteAlignPortableKernel,
    MoEPostPermuteCall,
    MoEPostPermuteFwdInterface,
    MoEPostPermutePortableKernel,
    MoEPostPermuteRowsKernel,
    MoEPrePermuteCall,
    MoEPrePermuteCountingKernel,
    MoEPrePermuteFwdInterface,
    MoEPrePermutePortableKernel,
)
from tileops.moe.kernels.top_k import (
    FusedTopKCall,
    FusedTopKFwdInterface,
    FusedTopKPortableKernel,
    FusedTopKWarpKernel,
)

__all__ = [
    "FusedTopKCall",
    "FusedTopKFwdInterface",
    "FusedTopKPortableKernel",
    "FusedTopKWarpKernel",
    "IndexedExpertMLPCall",
    "IndexedExpertMLPFwdInterface",
    "IndexedExpertMLPGroupedKernel",
    "IndexedExpertMLPPortableKernel",
    "MoEGroupedGemmCall",
    "MoEGroupedGemmFwdInterface",
    "MoEGroupedGemmPipelinedKernel",
    "MoEGroupedGemmPortableKernel",
    "MoEPermuteAlignCall",
    "MoEPermuteAlignCountingKernel",
    "MoEPermuteAlignFwdInterface",
    "MoEPermuteAlignPortableKernel",
    "MoEPostPermuteCall",
    "MoEPostPermuteFwdInterface",
    "MoEPostPermutePortableKernel",
    "MoEPostPermuteRowsKernel",
    "MoEPrePermuteCall",
    "MoEPrePermuteCountingKernel",
    "MoEPrePermuteFwdInterface",
    "MoEPrePermutePortableKernel",
]
