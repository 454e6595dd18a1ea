"""Normalisation ops."""

from tileops.norm.ops import *  # noqa: F403
from tileops.norm.ops import __all__ as __all__
