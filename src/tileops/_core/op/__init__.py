"""`Op`: how an op class comes into being, what an instance holds, how one call runs."""

from __future__ import annotations

from tileops._core.op.base import Op

__all__ = ["Op"]
