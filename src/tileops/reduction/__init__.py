"""Reductions over axes."""

from tileops.reduction.ops import *  # noqa: F403
from tileops.reduction.ops import __all__ as __all__
