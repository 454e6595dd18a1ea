"""Op classes of the moe family."""

from typing import TYPE_CHECKING

from tileops.moe.ops import experts
from tileops.moe.ops.experts import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [*experts.__all__]
