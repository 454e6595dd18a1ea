"""The order of the checks: of two faults, the one whose check comes first is reported."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
import torch

from signature.drawing.case import Tiled
from tileops.errors import SignatureError

CONSTRUCTION = """
EarlyFwdOp:
  signature:
    forall: {P: Dim, Q: Dim, T: "DType[float16 | float32]"}
    params:
      mode: {type: "'a' | 'b'"}
      store: {type: RowStore}
      k: {type: int}
      wide: {type: bool}
      table: {dtype: int32, shape: "[2]", contiguous: true, kw_only: true}
      extra: {dtype: int32, shape: "[2]", optional: wide, kw_only: true}
      factors: {dtype: T, shape: "[2 * P]", kw_only: true}
      again: {dtype: T, shape: "[P, q]", kw_only: true}
    inputs: {x: {dtype: T, shape: "[P, Q]"}}
    outputs: {y: {dtype: T, shape: "[k - P]"}}
    let: {q: "P // k"}
    shape_rules: ["P > 2", "mode == 'a' or not wide"]
adts:
  RowStore:
    sum:
      tiled:
        python: signature.drawing.case.Tiled
        fields: {tile: Dim, padded: Bool}
        invariant: "tile > 0"
"""
CONSTRUCTION_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "the type of a parameter": ({"mode": "c"}, "params.mode.type"),
    "an invariant": ({"store": Tiled(0, False)}, "adts.RowStore.tiled.invariant"),
    "the type of the next": ({"wide": 1}, "params.wide.type"),
    "a tensor that is required": ({"table": None}, "params.table"),
    "a tensor that is not due": ({"extra": torch.ones(2).int()}, "params.extra.optional"),
    "a domain restriction": (
        {"mode": "b", "wide": True, "extra": torch.ones(2).int()}, "shape_rules[1]"
    ),
    "a dtype": ({"factors": torch.ones(6).int()}, "params.factors.dtype"),
    "an inexact division": ({"factors": torch.ones(7)}, "params.factors.shape"),
    "an axis": ({"again": torch.ones(3, 4)}, "params.again.shape"),
    "a negative axis": ({"k": 2, "again": torch.ones(3, 1)}, "outputs.y.shape"),
    "a refinement": (
        {"factors": torch.ones(2), "again": torch.ones(1, 0)}, "shape_rules[0]"
    ),
}  # fmt: skip
"""Of each check a way to break it alone, in the order of the checks."""

CALL = """
LateFwdOp:
  signature:
    forall: {M: Dim, N: Dim, T: "DType[float16 | float32]", U: "DType[float16 | float32]"}
    params: {k: {type: int}}
    inputs:
      x: {dtype: T, shape: "[M, 2 * N]", contiguous: true}
      w: {dtype: U, shape: "[N]", mutated: true}
      host: {dtype: int32, shape: "[2]", device: cpu}
      b: {dtype: T, shape: "[N]", optional: true}
      c: {dtype: T, shape: "[N]", optional: "present(b)"}
      d: {dtype: T, shape: "[N]", optional: true}
    outputs: {y: {dtype: T, shape: "[M - k]", buffer: out}}
    let: {q: "M // N"}
    dtype_combos: [{T: float32, U: float32}, {T: float16, U: float16}]
    shape_rules: ["q > 0", "present(b) or not present(d)"]
"""
HALF = torch.float16


def ones(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device=device)


CALL_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a required input": ({"x": None}, "inputs.x"),
    "what is no tensor": ({"w": 3}, "inputs.w"),
    "a presence condition": ({"b": ones(3)}, "inputs.c.optional"),
    "a domain restriction": ({"d": ones(3)}, "shape_rules[1]"),
    "devices": ({"w": ones(3, device="meta")}, "inputs"),
    "contiguity": ({"x": ones(6, 4).t()}, "inputs.x.contiguous"),
    "an input that overlaps itself": ({"w": ones(1).expand(3)}, "inputs.w.mutated"),
    "a dtype": ({"x": ones(4, 6, dtype=torch.int8)}, "inputs.x.dtype"),
    "a combination of dtypes": ({"w": ones(3, dtype=HALF)}, "dtype_combos"),
    "a rank": ({"x": ones(4)}, "inputs.x.shape"),
    "an axis": ({"w": ones(4)}, "inputs.w.shape"),
    "a let": ({"x": ones(4, 0), "w": ones(0)}, "let.q"),
    "a negative axis": ({"x": ones(0, 6)}, "outputs.y.shape"),
    "a refinement": ({"x": ones(2, 6)}, "shape_rules[0]"),
    "the buffer": ({"out": ones(9)}, "outputs.y.buffer"),
}
"""The same of a call."""


GOOD_CALL: dict[str, Any] = {"x": ones(4, 6), "w": ones(3), "host": ones(2).int()}
GOOD_ARGUMENTS: dict[str, Any] = {
    "mode": "a", "store": Tiled(2, False), "k": 3, "wide": False, "table": ones(2).int(),
    "extra": None, "factors": ones(6), "again": ones(3, 1),
}  # fmt: skip


def assert_in_order(faults: Mapping[str, tuple[dict[str, Any], str]], attempt: Any) -> None:
    """Each fault is reported alone, and before every later one that can be made with it."""
    nothing: tuple[dict[str, Any], str] = ({}, "")
    for (first, path), (second, _) in combinations([*faults.values(), nothing], 2):
        if not first.keys() & second.keys():
            with pytest.raises(SignatureError) as caught:
                attempt(**second | first)
            assert caught.value.declaration.partition(" ")[0] == path


def test_construction_reports_the_earliest(plan_for, construct):
    plan = plan_for(CONSTRUCTION)
    construct(plan, **GOOD_ARGUMENTS)
    assert_in_order(CONSTRUCTION_FAULTS, lambda **new: construct(plan, **GOOD_ARGUMENTS | new))


def test_a_call_reports_the_earliest(op_for):
    op = op_for(CALL, k=1)
    op.check(**GOOD_CALL)
    assert_in_order(CALL_FAULTS, lambda **new: op.check(**GOOD_CALL | new))
