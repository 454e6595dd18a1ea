"""Specs written in a test, and instances that stand for ops of them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tileops._core.runtime.plan import _SignaturePlan, plan_of
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import OpSpec
from tileops._core.spec.source import Source

FRAME = {
    "family": "elementwise",
    "status": "spec-only",
    "workloads": [{"label": "unused"}],
    "roofline": {"flops": 0},
}


def read(text: str) -> OpSpec:
    """The first spec of a YAML text; fields beside `signature` may be left out."""
    data = yaml.safe_load(text)
    specs = {name: {**FRAME, **spec} for name, spec in data.items() if name != "adts"}
    adts = {"adts": data["adts"]} if "adts" in data else {}
    source = Source("elementwise/spec.yaml", package=None)
    found = Manifest().adding([mapping_content({**specs, **adts}, source)])
    spec = found.lookup(next(iter(specs)))
    assert spec is not None
    return spec


class Checked:
    """Stands for an op: parameters as attributes, checked as `Op.__init__` does."""

    def __init__(self, plan: _SignaturePlan, **values: Any) -> None:
        self.__dict__.update(values)
        self.plan = plan
        self._placed_tensors: dict[str, Any] = {}
        self._known_calls: dict[Any, Any] = {}
        self._construction_indices = plan.check_construction(self)

    def check(self, **tensors: Any) -> Any:
        """Check a call; inputs left out are absent."""
        return self.plan.check(self, dict.fromkeys(self.plan.input_names) | tensors)

    def check_result(self, result: Any, target: str | None = None, **tensors: Any) -> None:
        """Check a call and what its implementation returned."""
        record = self.check(**tensors)
        passed = dict.fromkeys(self.plan.input_names) | tensors
        self.plan.check_result(self, record, result, passed, target)


@pytest.fixture
def plan_for():
    """Makes the plan of a spec given as YAML text."""
    return lambda text: _SignaturePlan.of(plan_of(read(text)))


@pytest.fixture
def op_for(plan_for):
    """Makes a checked instance of a spec given as YAML text."""
    return lambda text, **values: Checked(plan_for(text), **values)


@pytest.fixture
def construct():
    """Constructs a checked instance of a plan."""
    return Checked


@pytest.fixture
def first_line():
    """The first line of the error that a call raises."""

    def catch(call: Any) -> str:
        with pytest.raises(Exception) as caught:
            call()
        return str(caught.value).split("\n")[0]

    return catch


ROW_SCALE = """
RowScaleFwdOp:
  signature:
    forall: {R: Dim, C: Dim, T: "DType[float16 | float32]"}
    params:
      gain: {type: float, default: 1.0, kw_only: true}
    inputs:
      x:     {dtype: T, shape: "[R, 2 * C]"}
      scale: {dtype: float32, shape: "[R]", optional: true}
    outputs:
      y: {dtype: T, shape: "[R, C]"}
    shape_rules: ["C > 0", "gain > 0"]
  roofline: {flops: "(3 if present(scale) else 2) * R * C"}
"""


@pytest.fixture
def row_scale(op_for):
    """An instance of the small spec that most tests use."""
    return op_for(ROW_SCALE, gain=1.0)


@pytest.fixture
def row_scale_plan(plan_for):
    """The plan of that spec."""
    return plan_for(ROW_SCALE)
