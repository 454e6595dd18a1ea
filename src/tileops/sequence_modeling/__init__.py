"""Residual streams of several copies that mix from layer to layer."""

from tileops.sequence_modeling.ops import *  # noqa: F403
from tileops.sequence_modeling.ops import __all__ as __all__
