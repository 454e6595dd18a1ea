"""The limits that torch sets: the most axes, and the most bytes, that a tensor can have.

A signature sets no limits, and torch's own errors name no declaration. Symbolic sizes are not
judged: a trace is followed by a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops._core.lang.extents import LARGEST, MOST_AXES, excess
from tileops._core.lang.values import shown
from tileops._core.runtime.failures import Faults


def demand_holdable(faults: Faults, shapes: Mapping[str, Any]) -> None:
    """Refuse given shapes that no tensor of torch can have.

    Raises:
        SignatureError: too many axes, or an axis too long.
    """
    for name, shape in shapes.items():
        if len(shape) > MOST_AXES:
            count = f"expected at most {MOST_AXES} axes, got {len(shape)}"
            raise faults.extent(name, f"{count}: shape {shown(shape)}")
        if any(type(size) is int and size > LARGEST for size in shape):
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
        reason = excess(shape, dtype)
        if reason is not None:
            raise faults.extent(name, reason)
