"""Normalisation ops."""

from typing import TYPE_CHECKING

from tileops.norm.ops import *  # noqa: F403

if not TYPE_CHECKING:
    from tileops.norm.ops import __all__ as __all__
