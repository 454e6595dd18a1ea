"""Filters of logits, and draws from probabilities."""

from tileops.sampling.ops import *  # noqa: F403
from tileops.sampling.ops import __all__ as __all__
