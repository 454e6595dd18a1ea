"""Sliding-window, adaptive and chunked pooling."""

from tileops.pool.ops import *  # noqa: F403
from tileops.pool.ops import __all__ as __all__
