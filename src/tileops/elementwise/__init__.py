"""Pointwise ops."""

from tileops.elementwise.ops import *  # noqa: F403
from tileops.elementwise.ops import __all__ as __all__
