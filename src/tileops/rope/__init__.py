"""Rotary position embeddings."""

from tileops.rope.ops import *  # noqa: F403
from tileops.rope.ops import __all__ as __all__
