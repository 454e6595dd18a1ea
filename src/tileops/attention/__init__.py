"""Softmax attention."""

from typing import TYPE_CHECKING

from tileops.attention.ops import *  # noqa: F403

if not TYPE_CHECKING:
    from tileops.attention.ops import __all__ as __all__
