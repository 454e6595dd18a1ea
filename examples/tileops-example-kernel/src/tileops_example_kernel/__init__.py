"""A kernel for TileOPs: matrix products with 65 to 128 rows, as decoding for a batch asks for.

The entry point of group `tileops.backends` imports this module, and importing it registers the
kernel under the interface `gemm` of `GemmFwdOp`. Nothing else happens here.
"""

from __future__ import annotations

from tileops.backend import register_kernel_type

from tileops_example_kernel.kernels import GemmBatchKernel

register_kernel_type("GemmFwdOp", "batch", GemmBatchKernel)
