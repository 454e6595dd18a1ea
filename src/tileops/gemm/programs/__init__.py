"""TileLang programs of the matrix products; imported only when a kernel makes its program."""

from tileops.gemm.programs.gemv import build_gemv
from tileops.gemm.programs.pipelined import Tiling, build_gemm_pipelined

__all__ = ["Tiling", "build_gemm_pipelined", "build_gemv"]
