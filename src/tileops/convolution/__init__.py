"""Convolutions."""

from tileops.convolution.ops import *  # noqa: F403
from tileops.convolution.ops import __all__ as __all__
