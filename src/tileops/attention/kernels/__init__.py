"""Kernel interfaces of the attention family and their implementations, a module for each kind."""

from __future__ import annotations

from tileops.attention.kernels.cached import PagedDecodeKernel, PagedPrefillPipelinedKernel
from tileops.attention.kernels.decode import DenseAttentionDecodeKernel
from tileops.attention.kernels.dense import (
    DenseAttentionCall,
    DenseAttentionFwdInterface,
    DenseAttentionPortableKernel,
)
from tileops.attention.kernels.gradients import (
    DenseAttentionBwdInterface,
    DenseAttentionBwdPortableKernel,
    SavedAttentionBwdCall,
    SavedAttentionBwdInterface,
    SavedAttentionBwdPortableKernel,
)
from tileops.attention.kernels.latent import (
    LatentDecodeCall,
    LatentDecodeFwdInterface,
    LatentDecodePipelinedKernel,
    LatentDecodePortableKernel,
)
from tileops.attention.kernels.packed_gradients import (
    VarlenAttentionBwdInterface,
    VarlenAttentionBwdPortableKernel,
)
from tileops.attention.kernels.paged import (
    PagedPrefillCall,
    PagedPrefillFwdInterface,
    PagedPrefillPortableKernel,
)
from tileops.attention.kernels.prefill import (
    DenseAttentionPipelinedKernel,
    VarlenAttentionPipelinedKernel,
)
from tileops.attention.kernels.varlen import (
    VarlenAttentionCall,
    VarlenAttentionFwdInterface,
    VarlenAttentionPortableKernel,
)

__all__ = [
    "DenseAttentionBwdInterface",
    "DenseAttentionBwdPortableKernel",
    "DenseAttentionCall",
    "DenseAttentionDecodeKernel",
    "DenseAttentionFwdInterface",
    "DenseAttentionPipelinedKernel",
    "DenseAttentionPortableKernel",
    "LatentDecodeCall",
    "LatentDecodeFwdInterface",
    "LatentDecodePipelinedKernel",
    "LatentDecodePortableKernel",
    "PagedDecodeKernel",
    "PagedPrefillCall",
    "PagedPrefillFwdInterface",
    "PagedPrefillPipelinedKernel",
    "PagedPrefillPortableKernel",
    "SavedAttentionBwdCall",
    "SavedAttentionBwdInterface",
    "SavedAttentionBwdPortableKernel",
    "VarlenAttentionBwdInterface",
    "VarlenAttentionBwdPortableKernel",
    "VarlenAttentionCall",
    "VarlenAttentionFwdInterface",
    "VarlenAttentionPipelinedKernel",
    "VarlenAttentionPortableKernel",
]
