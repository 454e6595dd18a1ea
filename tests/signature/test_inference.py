"""Shapes of outputs inferred from shapes alone."""

from __future__ import annotations

import pytest
import torch

from tileops.errors import SignatureError, SignatureTypeError

PACK = """
PackFwdOp:
  signature:
    forall: {N: Dim, T: "DType[uint8 | int8 | float32]"}
    params: {scale: {type: float, default: 1.0}, wide: {type: bool, default: false}}
    inputs:
      x: {dtype: T, shape: "[N]"}
      y: {dtype: T, shape: "[N]", optional: true, contiguous: true}
    outputs:
      p: {dtype: T, shape: "[N // 2 if T == 'uint8' else N]"}
      q: {dtype: "promote_int_to_float(T)", shape: "[N]", nullable: wide}
    let: {small: "category(T) != 'float'"}
    shape_rules: ["not small or representable(scale, T)", "not wide or present(y)"]
"""


@pytest.fixture
def pack(op_for):
    return op_for(PACK, scale=1.0, wide=False)


def test_shapes_alone(row_scale):
    infer = row_scale.plan.output_shapes
    assert infer(row_scale, {"x": (4, 6)}) == {"y": (4, 3)}
    assert infer(row_scale, {"x": torch.Size([4, 6]), "scale": (4,)}) == {"y": (4, 3)}
    assert infer(row_scale, {"x": [0, 6], "scale": None}) == {"y": (0, 3)}
    with pytest.raises(SignatureError, match="axis 0 has length 5, expected 4"):
        infer(row_scale, {"x": (4, 6), "scale": (5,)})
    with pytest.raises(SignatureError, match='"C > 0" does not hold: C=0'):
        infer(row_scale, {"x": (4, 0)})
    with pytest.raises(SignatureTypeError, match=r"inputs\.x: required, got None"):
        infer(row_scale, {})


def test_dtypes_are_checked_as_far_as_they_are_given(row_scale):
    infer = row_scale.plan.output_shapes
    assert infer(row_scale, {"x": (4, 6)}, {"x": torch.float16}) == {"y": (4, 3)}
    assert infer(row_scale, {"x": (4, 6)}, {"x": "float16"}) == {"y": (4, 3)}
    with pytest.raises(SignatureError, match="int8 is not in T"):
        infer(row_scale, {"x": (4, 6)}, {"x": "int8"})
    shapes = {"x": (4, 6), "scale": (4,)}
    with pytest.raises(SignatureError, match="expected float32, got float16"):
        infer(row_scale, shapes, {"scale": torch.float16})


def test_a_shape_that_depends_on_a_dtype(pack):
    infer = pack.plan.output_shapes
    assert infer(pack, {"x": (6,)}, {"x": "uint8"}) == {"p": (3,)}
    assert infer(pack, {"x": (6,)}, {"x": "float32"}) == {"p": (6,)}
    with pytest.raises(SignatureTypeError) as caught:
        infer(pack, {"x": (6,)})
    assert 'inputs.x.dtype "T": needed to infer the shapes, give it in `dtypes`' in str(
        caught.value
    )


def test_rules_over_dtypes_wait_for_them(op_for):
    text = PACK.replace("N // 2 if T == 'uint8' else N", "N")
    op = op_for(text, scale=300.0, wide=False)
    assert op.plan.output_shapes(op, {"x": (6,)}) == {"p": (6,)}
    with pytest.raises(SignatureError, match=r"representable\(scale, T\).* does not hold"):
        op.plan.output_shapes(op, {"x": (6,)}, {"x": "int8"})


def test_restrictions_and_presence_hold_without_tensors(op_for):
    op = op_for(PACK.replace("N // 2 if T == 'uint8' else N", "N"), scale=1.0, wide=True)
    assert op.plan.output_shapes(op, {"x": (6,), "y": (6,)}) == {"p": (6,), "q": (6,)}
    with pytest.raises(SignatureError, match="does not hold: wide=True, y is absent"):
        op.plan.output_shapes(op, {"x": (6,)})


def test_names_that_are_no_inputs(pack):
    with pytest.raises(TypeError, match="no input 'z'; inputs: x, y"):
        pack.plan.output_shapes(pack, {"z": (6,)})
    with pytest.raises(TypeError, match="no input 'z'"):
        pack.plan.output_shapes(pack, {"x": (6,)}, {"z": "int8"})


@pytest.mark.parametrize(
    ("shape", "error", "fault"),
    [
        (5, SignatureTypeError, "expected a list or tuple of lengths, got 5 (int)"),
        ("ab", SignatureTypeError, "expected a list or tuple of lengths, got 'ab' (str)"),
        ((2, 1.5), SignatureTypeError, "expected lengths, got 1.5 (float) in (2, 1.5)"),
        ((2, True), SignatureTypeError, "expected lengths, got True (bool) in (2, True)"),
        ((2, None), SignatureTypeError, "expected lengths, got None in (2, None)"),
        ((2, -2), SignatureError, "expected lengths of at least 0, got (2, -2)"),
    ],
)
def test_what_is_no_shape(row_scale, shape, error, fault):
    with pytest.raises(error) as caught:
        row_scale.plan.output_shapes(row_scale, {"x": shape})
    assert type(caught.value) is error
    assert (caught.value.declaration, caught.value.fault) == ("inputs.x.shape", fault)


@pytest.mark.parametrize(
    ("dtypes", "error", "text"),
    [
        ({"x": "float17"}, SignatureError, "inputs.x.dtype: expected the name of a dtype, got"),
        ({"x": 3}, SignatureTypeError, "inputs.x.dtype: expected a dtype or its name, got 3 (int)"),
        ({"x": ["a"]}, SignatureTypeError, "expected a dtype or its name, got ['a'] (list)"),
        ({3: "float16"}, SignatureTypeError, "(call): no input 3; inputs: x, scale"),
        ("x", SignatureTypeError, "(call): expected dtypes by input name, got 'x' (str)"),
    ],
)
def test_what_is_no_dtype(row_scale, dtypes, error, text):
    with pytest.raises(error) as caught:
        row_scale.plan.output_shapes(row_scale, {"x": (2, 2)}, dtypes)
    assert type(caught.value) is error
    assert text in str(caught.value)
