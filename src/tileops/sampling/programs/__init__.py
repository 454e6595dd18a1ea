"""TileLang programs of sampling; imported only when a kernel makes its program."""

from tileops.sampling.programs.draws import build_sampling
from tileops.sampling.programs.logits import Masking
from tileops.sampling.programs.masks import build_logit_mask, build_min_p_mask

__all__ = ["Masking", "build_logit_mask", "build_min_p_mask", "build_sampling"]
