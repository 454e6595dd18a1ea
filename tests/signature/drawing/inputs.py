"""Declaring an input, and fields that some declarations have."""

from __future__ import annotations

import random
from typing import Any

from signature.drawing.case import Case


def add_input(case: Case, name: str, parts: list[str], dtype: str, **fields: Any) -> None:
    """An input with these axes; `shape` overrides how they are written."""
    axes = f"[{', '.join(parts)}]"
    case.inputs[name] = {"dtype": dtype, "shape": axes, **fields}
    case.inputs[name] |= some(case.rng, {"contiguous": True})
    case.shapes[name] = case.shape(axes)


def some(rng: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that are declared now and then."""
    return {name: value for name, value in fields.items() if rng.random() < 0.2}
