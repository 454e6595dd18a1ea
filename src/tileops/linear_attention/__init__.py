"""Recurrences over a matrix state: delta rules and gated linear attention."""

from typing import TYPE_CHECKING

from tileops.linear_attention.ops import *  # noqa: F403

if not TYPE_CHECKING:
    from tileops.linear_attention.ops import __all__ as __all__
