"""Mixture of experts: routing, permutation, expert layers, and the layer fused of them."""

from typing import TYPE_CHECKING

from tileops.moe.ops import *  # noqa: F403
from tileops.moe.types import *  # noqa: F403

if not TYPE_CHECKING:
    from tileops.moe.ops import __all__ as __all__
