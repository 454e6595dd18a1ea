"""Orthogonal transforms."""

from tileops.transform.ops import *  # noqa: F403
from tileops.transform.ops import __all__ as __all__
