"""A kernel for TileOPs: matrix products with few rows, as decoding one token a sequence asks for.

The entry point of group `tileops.backends` imports this module, and importing it registers the
kernel under the interface `gemm` of `GemmFwdOp`. Nothing else happens here.
"""

from __future__ import annotations

from tileops.backend import register_kernel_type

from tileops_example_kernel.kernels import GemmThinKernel

register_kernel_type("GemmFwdOp", "thin", GemmThinKernel)
