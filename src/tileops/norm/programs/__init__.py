"""TileLang programs of the norms; imported only when a kernel makes its program."""

from tileops.norm.programs.batch import build_batch_norm_bwd, build_batch_norm_bwd_sums
from tileops.norm.programs.rows import (
    Channels,
    Norm,
    build_norm_on_chip,
    build_norm_streaming,
)

__all__ = [
    "Channels",
    "Norm",
    "build_batch_norm_bwd",
    "build_batch_norm_bwd_sums",
    "build_norm_on_chip",
    "build_norm_streaming",
]
