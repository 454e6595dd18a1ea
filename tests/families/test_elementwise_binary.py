"""Pointwise functions of two tensors: broadcasting, rounding once, integers, special values."""

from __future__ import annotations

import math

import pytest
import torch

from tileops import elementwise as ew
from tileops.elementwise import reference
from tileops.errors import SignatureError

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
HALF = DTYPES[:2]
INF, NAN = math.inf, math.nan

FLOATS = {
    "add": ew.AddFwdOp,
    "sub": ew.SubFwdOp,
    "mul": ew.MulFwdOp,
    "maximum": ew.MaximumFwdOp,
    "minimum": ew.MinimumFwdOp,
    "div": ew.DivFwdOp,
    "floor_divide": ew.FloorDivideFwdOp,
    "remainder": ew.RemainderFwdOp,
    "pow": ew.PowFwdOp,
    "lerp": ew.LerpFwdOp,
    "eq": ew.EqFwdOp,
    "ne": ew.NeFwdOp,
    "gt": ew.GtFwdOp,
    "lt": ew.LtFwdOp,
    "ge": ew.GeFwdOp,
    "le": ew.LeFwdOp,
    "logical_and": ew.LogicalAndFwdOp,
    "logical_or": ew.LogicalOrFwdOp,
}
BITS = {
    "bitwise_and": ew.BitwiseAndFwdOp,
    "bitwise_or": ew.BitwiseOrFwdOp,
    "bitwise_xor": ew.BitwiseXorFwdOp,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FLOATS)
def test_is_accurate_under_broadcasting(draw, close, dtype, name):
    for left, right in (
        ((3, 400), (3, 400)), ((5, 1), (1, 6)), ((), (2, 3)), ((4, 1, 3), (2, 1)), ((0,), (1,)),
    ):  # fmt: skip
        a, b = draw(*left, dtype=dtype), draw(*right, dtype=dtype)
        close(FLOATS[name]()(a, b), getattr(reference, name)(a, b))


def test_shapes_that_do_not_broadcast_are_refused(draw):
    with pytest.raises(SignatureError, match=r"outputs\.output\.shape"):
        ew.AddFwdOp()(torch.empty(0), draw(3))


@pytest.mark.parametrize("name", FLOATS)
def test_views(draw, close, name):
    a, b = draw(8, 9).T[1:, ::2], draw(1, 4).expand(8, 4)
    op = FLOATS[name]()
    close(op(a, b), op(a.clone(), b.clone()), 0)
    close(op(a[2:, 1:], b[2:, 1:]), op(a, b)[2:, 1:].clone(), 0)


@pytest.mark.parametrize("name", [*FLOATS, "bitwise_and"])
def test_dtypes_are_not_promoted(name):
    op = {**FLOATS, **BITS}[name]()
    a, b = (torch.int32, torch.int64) if name in BITS else (torch.float32, torch.float16)
    with pytest.raises(SignatureError, match=rf"expected {a}, got {b}".replace("torch.", "")):
        op(torch.ones(3, dtype=a), torch.ones(3, dtype=b))


@pytest.mark.parametrize("dtype", HALF)
def test_alpha_is_not_rounded_to_a_half_type(draw, dtype):
    a, b = draw(4000, dtype=dtype), draw(4000, dtype=dtype)
    for op, expected in ((ew.AddFwdOp, reference.add), (ew.SubFwdOp, reference.sub)):
        actual, exact = op(alpha=3.3)(a, b), expected(a, b, alpha=3.3)
        assert (actual != exact).float().mean() < 1e-3
        rounded = expected(a, b, alpha=torch.tensor(3.3, dtype=dtype).item())
        assert (rounded != exact).float().mean() > 0.1


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_a_quotient_is_rounded_by_its_mode_before_its_dtype(draw, dtype, mode):
    a, b = draw(4000, dtype=dtype), draw(4000, dtype=dtype)
    expected = reference.div(a, b, rounding_mode=mode)
    assert torch.equal(ew.DivFwdOp(rounding_mode=mode)(a, b), expected)
    if mode == "floor":
        assert torch.equal(ew.FloorDivideFwdOp()(a, b), expected)


def test_division_by_zero(close):
    a, b = torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)
    quotients = torch.tensor([INF, -INF, NAN])
    for mode in (None, "floor", "trunc"):
        close(ew.DivFwdOp(rounding_mode=mode)(a, b), quotients)
    close(ew.FloorDivideFwdOp()(a, b), quotients)
    close(ew.RemainderFwdOp()(a, b), torch.full((3,), NAN))


@pytest.mark.parametrize("dtype", DTYPES)
def test_floor_divide_takes_the_true_quotient(dtype):
    a, b = torch.tensor(0.3, dtype=dtype), torch.tensor(0.1, dtype=dtype)
    assert ew.FloorDivideFwdOp()(a, b).item() == 3.0


def test_remainder_has_the_sign_of_the_divisor(close):
    a, b = torch.tensor([-1.0, 5.0, -5.0, -1.0]), torch.tensor([INF, -3.0, 3.0, -INF])
    close(ew.RemainderFwdOp()(a, b), torch.tensor([INF, -1.0, 1.0, -1.0]))


def test_integers_wrap_and_bool_is_logic():
    a = torch.tensor([100, -128, 127], dtype=torch.int8)
    assert ew.AddFwdOp(alpha=2)(a, a).tolist() == [44, -128, 125]
    assert ew.SubFwdOp(alpha=-1)(a, a).tolist() == [-56, 0, -2]
    assert ew.MulFwdOp()(a, a).tolist() == [16, 0, 1]
    unsigned = torch.tensor([3, 200], dtype=torch.uint8)
    assert ew.AddFwdOp(alpha=-1)(unsigned, unsigned.flip(0)).tolist() == [59, 197]
    assert ew.SubFwdOp()(unsigned, unsigned.flip(0)).tolist() == [59, 197]
    t, f = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert ew.AddFwdOp()(t, f).tolist() == [True, True, False]
    assert ew.AddFwdOp(alpha=True)(t, f).tolist() == [True, True, False]
    assert ew.MulFwdOp()(t, f).tolist() == [True, False, False]
    assert ew.MaximumFwdOp()(t, f).tolist() == [True, True, False]
    assert ew.LtFwdOp()(f, t).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
@pytest.mark.parametrize("name", BITS)
def test_bits(draw, close, dtype, name):
    a, b = (draw(9, 1).abs() * 9).to(dtype), (draw(7).abs() * 9).to(dtype)
    close(BITS[name]()(a, b), getattr(reference, name)(a, b))


@pytest.mark.parametrize(
    ("alpha", "dtype", "fault"),
    [
        (1.5, torch.int32, "alpha=1.5, T=int32"),
        (True, torch.float32, "alpha=True, T=float32"),
        (300, torch.int8, "alpha=300, T=int8"),
        (1e6, torch.float16, "alpha=1000000.0, T=float16"),
    ],
)
def test_an_alpha_that_does_not_fit_is_refused(alpha, dtype, fault):
    x = torch.ones(2, dtype=dtype)
    for op in (ew.AddFwdOp, ew.SubFwdOp):
        with pytest.raises(SignatureError, match=fault):
            op(alpha=alpha)(x, x)


def test_sub_refuses_bool():
    x = torch.tensor([True])
    with pytest.raises(SignatureError, match=r"bool is not in T"):
        ew.SubFwdOp()(x, x)


def test_nan_wins_and_compares_false(close):
    a, b = torch.tensor([NAN, 1.0, NAN]), torch.tensor([1.0, NAN, NAN])
    for op in (ew.MaximumFwdOp(), ew.MinimumFwdOp()):
        close(op(a, b), torch.full((3,), NAN))
    for op in (ew.EqFwdOp(), ew.GtFwdOp(), ew.LtFwdOp(), ew.GeFwdOp(), ew.LeFwdOp()):
        assert not op(a, b).any()
    assert ew.NeFwdOp()(a, b).all()
    zero = torch.zeros(3)
    assert ew.LogicalOrFwdOp()(a, zero).tolist() == [True, True, True]
    assert ew.LogicalAndFwdOp()(a, zero + 1).tolist() == [True, True, True]


def test_lerp_is_exact_at_both_ends():
    a, b = torch.tensor([1.0, 1e-30, 1e30]), torch.tensor([1e30, 1e30, 1.0])
    assert torch.equal(ew.LerpFwdOp(weight=0.0)(a, b), a)
    assert torch.equal(ew.LerpFwdOp(weight=1.0)(a, b), b)


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        (torch.float16, -INF, -INF),
        (torch.float32, NAN, NAN),
        (torch.int8, 1.5, 1),
        (torch.int64, -3, -3),
        (torch.bool, 7, True),
    ],
)
def test_masked_fill_stores_the_value_in_the_dtype(dtype, value, stored):
    x, mask = torch.zeros(2, 1, dtype=dtype), torch.tensor([[True, False, True], [False] * 3])
    expected = torch.zeros(2, 3, dtype=dtype)
    expected[mask] = stored
    cell = torch.tensor(value).to(dtype)
    for y in (ew.MaskedFillScalarFwdOp(value=value)(x, mask), ew.MaskedFillFwdOp()(x, mask, cell)):
        torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


def test_masked_fill_refuses_what_the_dtype_cannot_hold():
    x = torch.zeros(2, dtype=torch.float16)
    with pytest.raises(SignatureError, match=r"value=1000000\.0, T=float16"):
        ew.MaskedFillScalarFwdOp(value=1e6)(x, x > 0)
    with pytest.raises(SignatureError, match=r"inputs\.value\.shape"):
        ew.MaskedFillFwdOp()(x, x > 0, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "weights"),
    [((), ()), ((), (1,)), ((5,), ()), ((5,), (1,)), ((2, 3), (3,)), ((2, 3, 4, 5), (3,))],
)
def test_prelu_slopes(draw, close, dtype, shape, weights):
    x, weight = draw(*shape, dtype=dtype), draw(*weights, dtype=dtype)
    close(ew.PreluFwdOp()(x, weight), reference.prelu(x, weight))


def test_prelu_refuses_slopes_of_a_vector(draw):
    with pytest.raises(SignatureError, match=r"W=\(3,\), S=\(3,\)"):
        ew.PreluFwdOp()(draw(3), draw(3))


def test_functions_do_not_share_entries(draw):
    op = ew.AddFwdOp()
    op(draw(3), draw(3))
    op(draw(4, 5), draw(5))
    op(draw(3).half(), draw(3).half())
    assert len(op.built_entries("binary")) == 2
