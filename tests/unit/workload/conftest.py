"""Specs given as YAML text, and their cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import OpSpec
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import plain, read_yaml

RUNNING = """
  forall: {R: Dim, C: Dim, T: "DType[float16 | float32]"}
  params:
    gain: {type: float, default: 1.0, kw_only: true}
  inputs:
    x:     {dtype: T, shape: "[R, 2 * C]"}
    scale: {dtype: float32, shape: "[R]", optional: true}
  outputs:
    y: {dtype: T, shape: "[R, C]"}
  shape_rules: ["C > 0", "gain > 0"]
"""
ROWS = """
- {R: 64, C: 256, some: [scale], dtype_cases: [{T: float16}, {T: float32}], label: tile-64}
- {R: 1, C: 8, dtype_cases: [{T: float16}], label: one-row}
"""


@pytest.fixture
def read() -> Callable[..., OpSpec]:
    """Make a spec from the text of its signature and of its rows."""

    def make(signature: str = RUNNING, rows: str = ROWS, flops: str = "1") -> OpSpec:
        data = {
            "family": "norm",
            "status": "spec-only",
            "signature": plain(read_yaml(signature.encode()).root),
            "workloads": plain(read_yaml(rows.encode()).root),
            "roofline": {"flops": flops},
        }
        content = mapping_content({"RowScaleFwdOp": data}, Source("test", package=None))
        spec = Manifest().adding([content]).lookup("RowScaleFwdOp")
        assert spec is not None
        assert spec.faults == ()
        return spec

    return make
