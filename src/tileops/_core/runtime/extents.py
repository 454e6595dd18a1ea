"""What torch can hold: so many axes, and so many bytes, and no tensor beyond.

A signature sets no bounds, but torch does, in errors that name none of its declarations. Symbolic
sizes are not judged: a trace is followed by a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.values import shown
from tileops._core.runtime.failures import Faults

MOST_AXES = 64
"""Axes beyond which functions of torch refuse a tensor."""

_LARGEST = (1 << 63) - 1
"""The largest length, and the most bytes."""


def demand_holdable(faults: Faults, shapes: Mapping[str, Any]) -> None:
    """Refuse shapes that were given and are none of a tensor that torch works on.

    Raises:
        SignatureError: too many axes, or an axis too long.
    """
    for name, shape in shapes.items():
        if len(shape) > MOST_AXES:
            count = f"expected at most {MOST_AXES} axes, got {len(shape)}"
            raise faults.extent(name, f"{count}: shape {shown(shape)}")
        if any(type(size) is int and size > _LARGEST for size in shape):
            raise faults.extent(name, f"no tensor is so long: shape {shown(shape)}")


def demand_makeable(faults: Faults, outputs: Mapping[str, tuple[Any, str | None]]) -> None:
    """Refuse outputs that torch could not make.

    Args:
        faults: raises what is wrong.
        outputs: shape and dtype, where it is known, by name.

    Raises:
        SignatureError: too many axes, or too many bytes.
    """
    for name, (shape, dtype) in outputs.items():
        if len(shape) > MOST_AXES:
            count = f"would have {len(shape)} axes, more than {MOST_AXES}"
            raise faults.extent(name, f"{count}: shape {shown(shape)}")
        if all(type(size) is int for size in shape):
            # Strides are counted even where there are no items.
            places = prod(max(size, 1) for size in shape)
            bytes_each = 1 if dtype is None or 0 in shape else BITS[dtype] // 8
            if places * bytes_each > _LARGEST:
                held = f"{shown(shape)} {dtype}" if dtype else shown(shape)
                raise faults.extent(name, f"{held} is more than memory can hold")
