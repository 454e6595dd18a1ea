"""Softmax attention."""

from tileops.attention.ops import *  # noqa: F403
from tileops.attention.ops import __all__ as __all__
