"""Kernel interfaces of the norm family and their implementations.

Of rows, of channels, and fused with what follows; gradients of those of rows.
"""

from __future__ import annotations

from tileops.norm.kernels.channels import (
    BatchNormBwdCall,
    BatchNormBwdInterface,
    BatchNormBwdPortableKernel,
    BatchNormFwdInterface,
    BatchNormPortableKernel,
    GroupNormCall,
    GroupNormFwdInterface,
    GroupNormPortableKernel,
    InstanceNormFwdInterface,
    InstanceNormPortableKernel,
    RunningNormCall,
)
from tileops.norm.kernels.fused import (
    AddRMSNormQuantCall,
    AddRMSNormQuantFwdInterface,
    AddRMSNormQuantPortableKernel,
    HeadNormRotaryCall,
    HeadNormRotaryFwdInterface,
    HeadNormRotaryPortableKernel,
)
from tileops.norm.kernels.gradients import (
    RowNormBwdCall,
    RowNormBwdInterface,
    RowNormBwdPortableKernel,
)
from tileops.norm.kernels.row_tiles import (
    AdaLayerNormOnChipKernel,
    AddLayerNormOnChipKernel,
    AddLayerNormStreamingKernel,
    AddRMSNormOnChipKernel,
    AddRMSNormStreamingKernel,
    LayerNormOnChipKernel,
    LayerNormStreamingKernel,
    RMSNormOnChipKernel,
    RMSNormStreamingKernel,
)
from tileops.norm.kernels.rows import (
    AdaLayerNormCall,
    AdaLayerNormFwdInterface,
    AdaLayerNormPortableKernel,
    AddLayerNormFwdInterface,
    AddLayerNormPortableKernel,
    AddRMSNormFwdInterface,
    AddRMSNormPortableKernel,
    LayerNormCall,
    LayerNormFwdInterface,
    LayerNormPortableKernel,
    RMSNormCall,
    RMSNormFwdInterface,
    RMSNormPortableKernel,
)

__all__ = [
    "RMSNormCall",
    "RMSNormFwdInterface",
    "RMSNormPortableKernel",
    "RMSNormOnChipKernel",
    "RMSNormStreamingKernel",
    "AddRMSNormFwdInterface",
    "AddRMSNormPortableKernel",
    "AddRMSNormOnChipKernel",
    "AddRMSNormStreamingKernel",
    "LayerNormCall",
    "LayerNormFwdInterface",
    "LayerNormPortableKernel",
    "LayerNormOnChipKernel",
    "LayerNormStreamingKernel",
    "AddLayerNormFwdInterface",
    "AddLayerNormPortableKernel",
    "AddLayerNormOnChipKernel",
    "AddLayerNormStreamingKernel",
    "AdaLayerNormCall",
    "AdaLayerNormFwdInterface",
    "AdaLayerNormOnChipKernel",
    "AdaLayerNormPortableKernel",
    "RowNormBwdCall",
    "RowNormBwdInterface",
    "RowNormBwdPortableKernel",
    "RunningNormCall",
    "BatchNormFwdInterface",
    "BatchNormPortableKernel",
    "InstanceNormFwdInterface",
    "InstanceNormPortableKernel",
    "GroupNormCall",
    "GroupNormFwdInterface",
    "GroupNormPortableKernel",
    "BatchNormBwdCall",
    "BatchNormBwdInterface",
    "BatchNormBwdPortableKernel",
    "AddRMSNormQuantCall",
    "AddRMSNormQuantFwdInterface",
    "AddRMSNormQuantPortableKernel",
    "HeadNormRotaryCall",
    "HeadNormRotaryFwdInterface",
    "HeadNormRotaryPortableKernel",
]
