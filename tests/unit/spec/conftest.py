"""Specs to vary."""

from __future__ import annotations

import copy
from typing import Any

import pytest

ROW_SCALE: dict[str, Any] = {
    "family": "elementwise",
    "status": "implemented",
    "signature": {
        "forall": {"R": "Dim", "C": "Dim", "T": "DType[float16 | float32]"},
        "params": {"gain": {"type": "float", "default": 1.0, "kw_only": True}},
        "inputs": {
            "x": {"dtype": "T", "shape": "[R, 2 * C]"},
            "scale": {"dtype": "float32", "shape": "[R]", "optional": True},
        },
        "outputs": {"y": {"dtype": "T", "shape": "[R, C]"}},
        "shape_rules": ["C > 0", "gain > 0"],
    },
    "workloads": [
        {
            "R": 64,
            "C": 256,
            "some": ["scale"],
            "dtype_cases": [{"T": "float16"}, {"T": "float32"}],
            "label": "tile-64",
        },
        {"R": 1, "C": 8, "dtype_cases": [{"T": "float16"}], "label": "one-row"},
    ],
    "roofline": {"flops": "(3 if present(scale) else 2) * R * C"},
}


@pytest.fixture
def row_scale() -> dict[str, Any]:
    """A complete small spec that the test may change."""
    return copy.deepcopy(ROW_SCALE)
