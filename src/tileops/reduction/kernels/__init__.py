"""Kernel interfaces of the reduction family and their implementations."""

from __future__ import annotations

from tileops.reduction.kernels.gradients import (
    SoftmaxBwdCall,
    SoftmaxBwdInterface,
    SoftmaxBwdPortableKernel,
)
from tileops.reduction.kernels.reductions import (
    FUNCTIONS,
    ReductionCall,
    ReductionFwdInterface,
    ReductionPortableKernel,
    VarMeanFwdInterface,
    VarMeanPortableKernel,
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
    SoftmaxSplitKernel,
    SoftmaxStreamingKernel,
)
from tileops.reduction.kernels.tiles import (
    ColumnReductionKernel,
    ColumnVarMeanKernel,
    RowReductionKernel,
    RowVarMeanKernel,
)

__all__ = [
    "FUNCTIONS",
    "ReductionCall",
    "ReductionFwdInterface",
    "ReductionPortableKernel",
    "VarMeanFwdInterface",
    "VarMeanPortableKernel",
    "ColumnReductionKernel",
    "ColumnVarMeanKernel",
    "RowReductionKernel",
    "RowVarMeanKernel",
    "SoftmaxBwdCall",
    "SoftmaxBwdInterface",
    "SoftmaxBwdPortableKernel",
    "SoftmaxCall",
    "SoftmaxFwdInterface",
    "SoftmaxOnChipKernel",
    "SoftmaxPortableKernel",
    "SoftmaxSplitKernel",
    "SoftmaxStreamingKernel",
    "RowScanKernel",
    "ScanCall",
    "ScanFwdInterface",
    "ScanPortableKernel",
]
