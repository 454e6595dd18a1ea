"""Steps run on shapes and dtypes: what is solved, and the message of each check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tileops._core.signature.analysis import Analysis
from tileops._core.spec.model import OpSpec
from tileops._core.workload.inference import Inference, InferenceFault
from tileops._core.workload.rows import RowReader

Read = Callable[..., OpSpec]

SIGNATURE = """
  forall: {A: Dim, S: Shape, B: Dim, T: "DType[float16 | float32]", U: "DType[int8]"}
  params: {k: {type: int, default: 2}}
  inputs:
    x: {dtype: T, shape: "[2 * A + 1, *S, 3]"}
    z: {dtype: T, shape: "[*S, A]"}
    w: {dtype: U, shape: "[B - k]"}
  outputs: {y: {dtype: float32, shape: "[m, A - k]"}}
  let: {m: "6 // (B - 3)"}
  shape_rules: ["A > 2"]
  dtype_combos: [{T: float16, U: int8}]
"""
SHAPES: dict[str, tuple[int, ...]] = {"x": (11, 4, 7, 3), "z": (4, 7, 5), "w": (2,)}
DTYPES = {"x": "float16", "z": "float16", "w": "int8"}


def inferred(
    read: Read, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]
) -> dict[str, Any]:
    spec = read(SIGNATURE, "[{A: 5, S: [4], B: 4, dtype_cases: [{T: float16, U: int8}], label: a}]")
    reader = RowReader(Analysis(spec))
    row = spec.workloads[0]
    assert row is not None
    branch = reader.setting(row).branch
    run = Inference(spec, {"k": 2}, lambda name: True, {**SHAPES, **shapes}, {**DTYPES, **dtypes})
    run.run(reader.steps(branch))
    return run.values


def test_the_solution_is_found(read: Read) -> None:
    assert inferred(read, {}, {}) == {
        "k": 2, "A": 5, "S": (4, 7), "B": 4, "T": "float16", "U": "int8", "m": 6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "dtypes", "message"),
    [
        ({"x": (10, 4, 7, 3)}, {}, "axis 0 has length 10, which no A >= 0 satisfies"),
        ({"x": (11,)}, {}, 'inputs.x.shape "[2 * A + 1, *S, 3]": expected at least 2 axes, got 1'),
        ({"x": (11, 4, 7, 2)}, {}, "axis 3 has length 2, expected 3"),
        ({"z": (4, 7, 6)}, {}, "axis 2 has length 6, expected 5"),
        ({"z": (4, 8, 5)}, {}, "axes 0 to 1 are (4, 8), expected (4, 7)"),
        ({"z": (4, 5)}, {}, "expected 3 axes, got 2"),
        ({"w": (1,)}, {}, 'signature.let.m "6 // (B - 3)"'),
        ({"w": (0,)}, {}, 'outputs.y.shape "[m, A - k]": an axis of length -6'),
        ({}, {"x": "int8"}, "int8 is not in T = DType[float16 | float32]"),
        ({}, {"z": "float32"}, 'signature.inputs.z.dtype "T": expected float16, got float32'),
        ({}, {"x": "float32", "z": "float32"}, "signature.dtype_combos"),
        ({"x": (5, 4, 7, 3), "z": (4, 7, 2)}, {}, '"A > 2": does not hold: A=2'),
    ],
)
def test_what_does_not_hold_is_named(
    read: Read, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], message: str
) -> None:
    with pytest.raises(InferenceFault) as caught:
        inferred(read, shapes, dtypes)
    assert message in str(caught.value)


def test_sizes_are_not_known(read: Read) -> None:
    with pytest.raises(KeyError):
        Inference(read(), {}, lambda name: True, {}, {}).bytes("x")
