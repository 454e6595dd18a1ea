"""Kernel interfaces of the reduction family and their implementations."""

from __future__ import annotations

from tileops.reduction.kernels.reductions import (
    FUNCTIONS,
    PIECE,
    ReductionCall,
    ReductionFwdInterface,
    ReductionPortableKernel,
    VarMeanFwdInterface,
    VarMeanPortableKernel,
)
from tileops.reduction.kernels.rows import (
    RowReductionKernel,
    RowSpreadKernel,
    RowVarMeanKernel,
)
from tileops.reduction.kernels.scans import (
    RowScanKernel,
    ScanCall,
    ScanFwdInterface,
    ScanPortableKernel,
)
from tileops.reduction.kernels.softmax import (
    SoftmaxCall,
    SoftmaxFwdInterface,
    SoftmaxOnChipKernel,
    SoftmaxPortableKernel,
    SoftmaxStreamingKernel,
)

__all__ = [
    "FUNCTIONS",
    "PIECE",
    "ReductionCall",
    "ReductionFwdInterface",
    "ReductionPortableKernel",
    "VarMeanFwdInterface",
    "VarMeanPortableKernel",
    "RowReductionKernel",
    "RowSpreadKernel",
    "RowVarMeanKernel",
    "SoftmaxCall",
    "SoftmaxFwdInterface",
    "SoftmaxOnChipKernel",
    "SoftmaxPortableKernel",
    "SoftmaxStreamingKernel",
    "RowScanKernel",
    "ScanCall",
    "ScanFwdInterface",
    "ScanPortableKernel",
]
