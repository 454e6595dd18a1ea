"""What torch can hold, known without it: so many axes, and so many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.values import shown

MOST_AXES = 64
"""Axes beyond which functions of torch refuse a tensor."""

LARGEST = (1 << 63) - 1
"""The largest length, and the most bytes."""


def excess(shape: Sequence[Any], dtype: str | None) -> str | None:
    """Why no tensor has this shape, None where one may; symbolic sizes are not judged."""
    if len(shape) > MOST_AXES:
        return f"would have {len(shape)} axes, more than {MOST_AXES}: shape {shown(tuple(shape))}"
    if all(type(size) is int for size in shape):
        # Strides are counted even where there are no items.
        places = prod(max(size, 1) for size in shape)
        bytes_each = 1 if dtype is None or 0 in shape else BITS[dtype] // 8
        if places * bytes_each > LARGEST:
            held = f"{shown(tuple(shape))} {dtype}" if dtype else shown(tuple(shape))
            return f"{held} is more than memory can hold"
    return None
