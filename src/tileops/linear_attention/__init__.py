"""Recurrences over a matrix state: delta rules and gated linear attention."""

from tileops.linear_attention.ops import *  # noqa: F403
from tileops.linear_attention.ops import __all__ as __all__
