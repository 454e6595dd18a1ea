"""The call device, and construction-time tensors placed on it."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops._core.runtime.placement import placed
from tileops.errors import SignatureError, SignatureTypeError

ROPE = """
RopeFwdOp:
  signature:
    forall: {N: Dim, P: Dim, T: "DType[float16 | float32 | float64]"}
    params:
      table: {dtype: int32, shape: "[2]", device: cpu}
      factors: {dtype: T, shape: "[P]", optional: true}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
"""
CAST = """
CastFwdOp:
  signature:
    forall: {N: Dim, T: "DType[float16 | float64]"}
    params:
      factors: {dtype: "coalesce_dtype(wide, T)", shape: "[2]"}
      wide: {type: "float64 | None", default: null}
    inputs: {x: {dtype: T, shape: "[N]"}}
    outputs: {y: {dtype: T, shape: "[N]"}}
"""
GRID = """
GridFwdOp:
  signature:
    params:
      n: {type: int}
      weight: {dtype: float32, shape: "[2]", optional: true}
      bias: {dtype: float32, shape: "[2]", optional: true}
      device: {type: "torch.device | str | None", default: null}
    outputs: {y: {dtype: float32, shape: "[n]"}}
"""
TABLE = torch.ones(2).int()


def test_one_copy_per_device_and_the_attribute_follows(op_for):
    factors = torch.arange(3.0)
    op = op_for(ROPE, factors=factors, table=TABLE)
    op.check(x=torch.zeros(4))
    assert op.factors is factors
    op.check(x=torch.zeros(4, device="meta"))
    on_meta = op.factors
    assert on_meta.is_meta
    assert op.table is TABLE
    op.check(x=torch.zeros(4))
    assert op.factors is not on_meta
    assert torch.equal(op.factors, factors)
    op.check(x=torch.zeros(4, device="meta"))
    assert op.factors is on_meta
    assert set(op._placed_tensors["factors"]) == {torch.device("cpu"), torch.device("meta")}


def test_rebinding_discards_the_copies(op_for):
    op = op_for(ROPE, factors=torch.zeros(3), table=TABLE)
    op.check(x=torch.zeros(4, device="meta"))
    op.factors = torch.ones(3)
    op.check(x=torch.zeros(4))
    assert torch.equal(op.factors, torch.ones(3))
    assert set(op._placed_tensors["factors"]) == {torch.device("cpu")}


def test_the_dtype_of_the_call_and_nothing_is_lost_on_the_way(op_for):
    precise = torch.tensor([1.0 + 2.0**-30, 3.0], dtype=torch.float64)
    op = op_for(CAST, factors=precise, wide=None)
    record = op.check(x=torch.zeros(4).half())
    assert op.factors.dtype is torch.float16
    assert record.tensors["factors"] == ((2,), "float16")
    op.check(x=torch.zeros(4).double())
    assert torch.equal(op.factors, precise)


def test_a_dtype_that_construction_knows_is_checked_there(op_for):
    fixed = CAST.replace("coalesce_dtype(wide, T)", "T")
    op = op_for(fixed, factors=torch.zeros(2).double(), wide=None)
    with pytest.raises(SignatureError, match="expected float64, got float16, where T=float64"):
        op.check(x=torch.zeros(4).half())


def test_traced_calls_place_nothing(op_for):
    op = op_for(ROPE, factors=torch.zeros(3), table=TABLE)
    with FakeTensorMode(allow_non_fake_inputs=True):
        op.check(x=torch.zeros(4, device="meta"))
    assert op._placed_tensors == {}
    assert not op.factors.is_meta


def test_the_device_parameter_comes_before_construction_time_tensors(op_for):
    meta = torch.zeros(2, device="meta")
    here = torch.zeros(2)
    assert op_for(GRID, n=3, weight=meta, bias=None, device=None).check().device.type == "meta"
    assert op_for(GRID, n=3, weight=here, bias=None, device="meta").check().device.type == "meta"


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "meta", "meta:0"])
def test_a_device_is_that_of_a_tensor_made_there(op_for, name):
    found = op_for(GRID, n=3, weight=None, bias=None, device=name).check().device
    assert found == torch.empty(1, device=name).device


def test_a_name_that_is_no_device(op_for):
    with pytest.raises(SignatureError) as caught:
        op_for(GRID, n=3, weight=None, bias=None, device="nowhere")
    assert str(caught.value).startswith(
        'GridFwdOp (construction): params.device.type "torch.device | str | None": '
        "expected a device, got 'nowhere'"
    )


def test_an_axis_that_construction_knows_to_be_negative(op_for):
    text = GRID.replace('shape: "[n]"', 'shape: "[n - 4]"')
    with pytest.raises(SignatureError) as caught:
        op_for(text, n=3, weight=None, bias=None, device="cpu")
    assert str(caught.value).startswith(
        'GridFwdOp (construction): outputs.y.shape "[n - 4]": '
        "the length would be negative: n - 4 is -1, where n=3"
    )


def test_a_list_with_an_item_that_construction_knows_to_be_negative(op_for):
    text = GRID.replace('shape: "[n]"', 'shape: "[*n]"').replace("type: int", 'type: "list[int]"')
    with pytest.raises(SignatureError) as caught:
        op_for(text, n=[2, -1], weight=None, bias=None, device="cpu")
    assert str(caught.value).startswith(
        'GridFwdOp (construction): outputs.y.shape "[*n]": '
        "a length would be negative: n is [2, -1], where n=[2, -1]"
    )


def test_no_device_at_all(op_for):
    expected = torch.accelerator.current_accelerator(check_available=True)
    found = op_for(GRID, n=3, weight=None, bias=None, device=None).check().device
    assert (found and found.type) == (expected and expected.type)


def test_construction_time_tensors_that_disagree_where_they_decide(op_for):
    given = {"n": 3, "weight": torch.zeros(2, device="meta"), "bias": torch.zeros(2)}
    with pytest.raises(SignatureError) as caught:
        op_for(GRID, **given, device=None).check()
    assert "GridFwdOp (call): params: expected one device, got meta (weight), cpu (bias)" in str(
        caught.value
    )
    assert op_for(GRID, **given, device="meta").check().device == torch.device("meta")


def test_an_unknown_device_leaves_the_tensor(op_for):
    op = op_for(GRID, n=3, weight=torch.zeros(2), bias=None, device="cpu")
    assert placed(op.plan._call, op, "weight", None, "float32") is op.weight


REBOUND = """
HeldFwdOp:
  signature:
    forall: {N: Dim, K: Dim, T: "DType[float16 | float32]"}
    params:
      w: {dtype: T, shape: "[2, K]", contiguous: true}
      c: {dtype: int32, shape: "[K]", device: cpu, optional: true}
      d: {dtype: T, shape: "[K]", optional: true}
    inputs: {x: {dtype: T, shape: "[N]"}}
    outputs: {y: {dtype: T, shape: "[N]"}}
"""


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "error", "fault"),
    [
        ("w", None, SignatureTypeError, "bound anew, expected a tensor, got None"),
        ("w", "x", SignatureTypeError, "bound anew, expected a tensor, got 'x' (str)"),
        ("w", torch.ones(3), SignatureError, "bound anew, expected shape (2, 3), got (3,)"),
        (
            "w",
            torch.ones(3, 2).T,
            SignatureError,
            "bound anew, expected a contiguous tensor, got strides (1, 2)",
        ),
        (
            "w",
            torch.ones(2, 3).to_sparse(),
            SignatureError,
            "bound anew, expected a strided tensor, got layout sparse_coo",
        ),
        (
            "w",
            torch.ones(2, 3, device="meta"),
            SignatureError,
            "a meta tensor has no contents to move to cpu",
        ),
        ("c", torch.ones(3), SignatureError, "bound anew, expected int32, got float32"),
        (
            "c",
            torch.ones(3, dtype=torch.int32, device="meta"),
            SignatureError,
            "bound anew, expected cpu, got meta",
        ),
        ("d", torch.ones(3), SignatureError, "bound anew, but it was absent at construction"),
    ],
)
def test_what_is_bound_anew_has_the_form_that_was_checked(op_for, first, name, value, error, fault):
    op = op_for(REBOUND, w=torch.ones(2, 3), c=torch.ones(3, dtype=torch.int32), d=None)
    if first:
        op.check(x=torch.ones(4))
    setattr(op, name, value)
    with pytest.raises(error) as caught:
        op.check(x=torch.ones(4))
    assert type(caught.value) is error
    assert (caught.value.declaration, caught.value.fault) == (f"params.{name}", fault)


def test_a_tensor_of_another_dtype_may_be_bound(op_for):
    op = op_for(REBOUND, w=torch.ones(2, 3), c=None, d=None)
    op.w = torch.zeros(2, 3, dtype=torch.float64)
    op.check(x=torch.ones(4))
    assert op.w.dtype is torch.float32
    assert op.w.sum() == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_a_tensor_of_another_sort_of_numbers_is_refused(op_for, dtype):
    op = op_for(REBOUND, w=torch.ones(2, 3), c=None, d=None)
    op.w = torch.zeros(2, 3, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.ones(4))
    assert caught.value.declaration == "params.w"
    assert caught.value.fault == f"bound anew, expected float32, got {name}"


WHOLE = """
WholeFwdOp:
  signature:
    forall: {N: Dim, I: "DType[int32 | int64]"}
    params: {ids: {dtype: I, shape: "[2]"}}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_integers_are_bound_in_place_of_integers(op_for, dtype):
    op = op_for(WHOLE, ids=torch.ones(2, dtype=torch.int32))
    op.ids = torch.ones(2, dtype=torch.int64)
    op.check(x=torch.ones(4))
    assert op.ids.dtype is torch.int32
    op.ids = torch.ones(2, dtype=dtype)
    with pytest.raises(SignatureError, match=r"params.ids: bound anew, expected int32, got"):
        op.check(x=torch.ones(4))


def test_an_attribute_that_was_deleted(op_for):
    op = op_for(REBOUND, w=torch.ones(2, 3), c=None, d=None)
    del op.w
    with pytest.raises(SignatureTypeError, match=r"params.w: bound anew, expected a tensor, got"):
        op.check(x=torch.ones(4))
