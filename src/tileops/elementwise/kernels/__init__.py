"""Kernel interfaces of the elementwise family and their implementations."""

from __future__ import annotations

from tileops.elementwise.kernels.dropout import (
    DropoutCall,
    DropoutFwdInterface,
    DropoutPortableKernel,
    DropoutTileKernel,
)
from tileops.elementwise.kernels.fills import AlibiTileKernel, SinusoidalTileKernel
from tileops.elementwise.kernels.generative import (
    AlibiCall,
    AlibiFwdInterface,
    AlibiPortableKernel,
    SinusoidalCall,
    SinusoidalFwdInterface,
    SinusoidalPortableKernel,
)
from tileops.elementwise.kernels.gradients import GatedBwdInterface, GatedBwdPortableKernel
from tileops.elementwise.kernels.pointwise import (
    FUNCTIONS,
    HALF,
    BinaryFwdInterface,
    GatedCall,
    GatedFwdInterface,
    GatedPortableKernel,
    PointwiseCall,
    PointwisePortableKernel,
    TernaryFwdInterface,
    UnaryFwdInterface,
)
from tileops.elementwise.kernels.tiles import (
    GatedTileKernel,
    PointwiseTileKernel,
)

__all__ = [
    "BinaryFwdInterface",
    "FUNCTIONS",
    "GatedBwdInterface",
    "GatedBwdPortableKernel",
    "GatedCall",
    "GatedFwdInterface",
    "GatedPortableKernel",
    "HALF",
    "PointwiseCall",
    "PointwisePortableKernel",
    "TernaryFwdInterface",
    "UnaryFwdInterface",
    "GatedTileKernel",
    "PointwiseTileKernel",
    "AlibiCall",
    "AlibiFwdInterface",
    "AlibiPortableKernel",
    "AlibiTileKernel",
    "DropoutCall",
    "DropoutFwdInterface",
    "DropoutPortableKernel",
    "DropoutTileKernel",
    "SinusoidalCall",
    "SinusoidalFwdInterface",
    "SinusoidalPortableKernel",
    "SinusoidalTileKernel",
]
