"""Pointwise ops."""

from typing import TYPE_CHECKING

from tileops.elementwise.ops import *  # noqa: F403

if not TYPE_CHECKING:
    from tileops.elementwise.ops import __all__ as __all__
