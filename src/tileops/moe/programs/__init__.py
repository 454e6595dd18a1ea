"""TileLang programs of routed layers; imported only when a kernel makes its program."""

from tileops.moe.programs.permute import build_permute_align, build_post_permute, build_pre_permute
from tileops.moe.programs.top_k import Selection, build_top_k

__all__ = [
    "Selection",
    "build_permute_align",
    "build_post_permute",
    "build_pre_permute",
    "build_top_k",
]
