"""Sizes of hyper-connections."""

from __future__ import annotations

import math

from tileops._core.lang.values import shown


def expansion(q: int) -> int:
    """The n > 0 with n² + 2n = q; fixes a symbolic `q`.

    Raises:
        ValueError: there is no such n.

    Example:
        >>> expansion(24)
        4
    """
    size = int(q)
    n = math.isqrt(size + 1) - 1 if size > 0 else 0
    if n <= 0 or n * n + 2 * n != size:
        got = f"got q={shown(size)}"
        raise ValueError(f"mhc.expansion needs q = n * n + 2 * n for some n > 0, {got}")
    return n
