"""TileLang programs of the matrix products; imported only when a kernel makes its program."""

from tileops.gemm.programs.gemv import build_gemv
from tileops.gemm.programs.grouped import build_gemm_grouped
from tileops.gemm.programs.groups import Groups
from tileops.gemm.programs.packed import build_gemm_packed
from tileops.gemm.programs.packed_split import build_gemm_packed_split
from tileops.gemm.programs.pipelined import build_gemm_pipelined
from tileops.gemm.programs.ring import Tiling
from tileops.gemm.programs.scaled import build_gemm_scaled
from tileops.gemm.programs.split import build_gemm_split
from tileops.gemm.programs.turn import build_turn

__all__ = [
    "Groups",
    "Tiling",
    "build_gemm_grouped",
    "build_gemm_packed",
    "build_gemm_packed_split",
    "build_gemm_pipelined",
    "build_gemm_scaled",
    "build_gemm_split",
    "build_gemv",
    "build_turn",
]
