"""TileLang programs of the reductions; imported only when a kernel makes its program."""

from tileops.reduction.programs.columns import (
    Columns,
    build_column_fold,
    build_column_fold_in_parts,
    build_row_and_column_fold,
)
from tileops.reduction.programs.folds import fold_of
from tileops.reduction.programs.rows import Rows, build_row_fold, build_row_fold_in_parts
from tileops.reduction.programs.scan import build_row_scan
from tileops.reduction.programs.softmax import (
    build_softmax_on_chip,
    build_softmax_split,
    build_softmax_streaming,
)

__all__ = [
    "Columns",
    "Rows",
    "build_column_fold",
    "build_column_fold_in_parts",
    "build_row_and_column_fold",
    "build_row_fold",
    "build_row_fold_in_parts",
    "build_row_scan",
    "build_softmax_on_chip",
    "build_softmax_split",
    "build_softmax_streaming",
    "fold_of",
]
