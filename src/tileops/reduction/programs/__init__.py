"""TileLang programs of the reductions; imported only when a kernel makes its program."""

from tileops.reduction.programs.folds import FOLDS
from tileops.reduction.programs.rows import (
    Rows,
    Spread,
    build_merge,
    build_row_fold,
    build_row_parts,
    build_row_spread,
)
from tileops.reduction.programs.scan import build_row_scan
from tileops.reduction.programs.softmax import build_softmax_on_chip, build_softmax_streaming

__all__ = [
    "FOLDS",
    "Rows",
    "Spread",
    "build_merge",
    "build_row_fold",
    "build_row_parts",
    "build_row_scan",
    "build_row_spread",
    "build_softmax_on_chip",
    "build_softmax_streaming",
]
