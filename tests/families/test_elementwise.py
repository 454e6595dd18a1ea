"""Pointwise ops: accuracy against float64, rounding once, special values, views, effects."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.elementwise import (
    AddFwdOp,
    AlibiFwdOp,
    ClampTensorFwdOp,
    DivFwdOp,
    ExpFwdOp,
    GeluFwdOp,
    MaskedFillScalarFwdOp,
    MulFwdOp,
    RsqrtFwdOp,
    SiluAndMulFwdOp,
    SiluFwdOp,
    WhereFwdOp,
    reference,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
HALF = DTYPES[:2]
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (SiluFwdOp(), reference.silu),
        (GeluFwdOp(), reference.gelu),
        (GeluFwdOp(approximate="tanh"), lambda x: reference.gelu(x, approximate="tanh")),
        (ExpFwdOp(), reference.exp),
        (RsqrtFwdOp(), reference.rsqrt),
    ],
    ids=["silu", "gelu", "gelu-tanh", "exp", "rsqrt"],
)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 1023), (2, 3, 4, 5)])
def test_unary_is_accurate(draw, close, dtype, op, expected, shape):
    x = draw(*shape, dtype=dtype, scale=3.0)
    close(op(x), expected(x))


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        (SiluFwdOp(), [-INF, NAN, INF], [NAN, NAN, INF]),
        (GeluFwdOp(), [NAN, 0.0], [NAN, 0.0]),
        (ExpFwdOp(), [-INF, INF, NAN, 1000.0], [0.0, INF, NAN, INF]),
        (RsqrtFwdOp(), [0.0, -0.0, -1.0, INF], [INF, -INF, NAN, 0.0]),
    ],
    ids=["silu", "gelu", "exp", "rsqrt"],
)
def test_unary_special_values(close, op, given, expected):
    close(op(torch.tensor(given)), torch.tensor(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_inplace_returns_the_input_itself(draw, close, dtype):
    x = draw(5, 6, dtype=dtype)
    expected = reference.silu(x)
    assert SiluFwdOp(inplace=True)(x) is x
    close(x, expected)


def test_inplace_writes_through_strides_and_nothing_else(draw):
    base = draw(6, 8)
    before, view = base.clone(), base.T[::2]
    assert SiluFwdOp(inplace=True)(view) is view
    assert torch.allclose(base[:, ::2], reference.silu(before[:, ::2]))
    assert torch.equal(base[:, 1::2], before[:, 1::2])


def test_inplace_refuses_an_expanded_view():
    with pytest.raises(ValueError, match="input"):
        SiluFwdOp(inplace=True)(torch.ones(1, 4).expand(3, 4))


def test_inplace_returns_an_empty_input_as_it_is():
    x = torch.empty(3, 0)
    assert SiluFwdOp(inplace=True)(x) is x


@pytest.mark.parametrize("op", [SiluFwdOp(), GeluFwdOp(), ExpFwdOp(), RsqrtFwdOp()])
def test_unary_of_a_view_is_contiguous(draw, close, op):
    x = draw(9, 10).abs().T[1:, ::3]
    close(op(x), op(x.contiguous()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (3, 4)), ((5, 1), (1, 6)), ((), (2, 3)), ((4, 1, 3), (2, 1)), ((0,), (1,))],
)
def test_binary_is_accurate_under_broadcasting(draw, close, dtype, left, right):
    a, b = draw(*left, dtype=dtype), draw(*right, dtype=dtype)
    close(AddFwdOp()(a, b), reference.add(a, b))
    close(MulFwdOp()(a, b), reference.mul(a, b))
    for mode in (None, "trunc", "floor"):
        close(DivFwdOp(rounding_mode=mode)(a, b), reference.div(a, b, rounding_mode=mode))


@pytest.mark.parametrize("dtype", HALF)
def test_alpha_is_not_rounded_to_a_half_type(draw, dtype):
    a, b = draw(4000, dtype=dtype), draw(4000, dtype=dtype)
    actual, expected = AddFwdOp(alpha=3.3)(a, b), reference.add(a, b, alpha=3.3)
    assert (actual != expected).float().mean() < 1e-3
    rounded = reference.add(a, b, alpha=torch.tensor(3.3, dtype=dtype).item())
    assert (rounded != expected).float().mean() > 0.1


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_a_quotient_is_rounded_by_its_mode_before_its_dtype(draw, dtype, mode):
    a, b = draw(4000, dtype=dtype), draw(4000, dtype=dtype)
    expected = reference.div(a, b, rounding_mode=mode)
    assert torch.equal(DivFwdOp(rounding_mode=mode)(a, b), expected)


def test_division_by_zero(close):
    a, b = torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)
    for mode in (None, "floor", "trunc"):
        close(DivFwdOp(rounding_mode=mode)(a, b), torch.tensor([INF, -INF, NAN]))


def test_integers_wrap_and_bool_is_logic():
    a = torch.tensor([100, -128, 127], dtype=torch.int8)
    assert AddFwdOp(alpha=2)(a, a).tolist() == [44, -128, 125]
    assert MulFwdOp()(a, a).tolist() == [16, 0, 1]
    unsigned = torch.tensor([3, 200], dtype=torch.uint8)
    assert AddFwdOp(alpha=-1)(unsigned, unsigned.flip(0)).tolist() == [59, 197]
    t, f = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert AddFwdOp()(t, f).tolist() == [True, True, False]
    assert AddFwdOp(alpha=True)(t, f).tolist() == [True, True, False]
    assert MulFwdOp()(t, f).tolist() == [True, False, False]


def test_clamp_between_tensors(draw, close):
    x, low, high = draw(3, 1), draw(1, 4), draw(2, 1, 4)
    for bounds in ((low, high), (low, None), (None, high)):
        close(ClampTensorFwdOp()(x, *bounds), reference.clamp_tensor(x, *bounds))


def test_clamp_lets_max_and_nan_win(close):
    x = torch.tensor([0.0, NAN, 0.0, 0.0])
    low, high = torch.tensor([2.0, 0.0, NAN, -INF]), torch.tensor([1.0, 1.0, 1.0, INF])
    close(ClampTensorFwdOp()(x, low, high), torch.tensor([1.0, NAN, NAN, 0.0]))


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
    y = MaskedFillScalarFwdOp(value=value)(x, mask)
    expected = torch.zeros(2, 3, dtype=dtype)
    expected[mask] = stored
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_chooses_bit_for_bit(draw, close, dtype):
    condition = torch.tensor([[True], [False], [True]])
    a, b = draw(3, 5, dtype=dtype), torch.tensor(NAN, dtype=dtype)
    close(WhereFwdOp()(condition, a, b), reference.where(condition, a, b))
    close(WhereFwdOp()(condition[0, 0], a.T[:, 1:], b), a.T[:, 1:].contiguous(), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (3, 14), (5, 2050)])
def test_gate_is_the_left_half(draw, close, dtype, shape):
    x = draw(*shape, dtype=dtype)
    close(SiluAndMulFwdOp()(x), reference.silu_and_mul(x))
    wide = draw(*shape[::-1], dtype=dtype).T
    close(SiluAndMulFwdOp()(wide), reference.silu_and_mul(wide))


def test_gated_product_is_rounded_once(draw):
    x = draw(64, 512, dtype=torch.float16)
    exact = (torch.nn.functional.silu(x[:, :256].float()) * x[:, 256:].float()).half()
    assert torch.equal(SiluAndMulFwdOp()(x), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 3, 8])
def test_alibi_is_accurate_for_every_head_count(close, dtype, heads):
    params = {"seq_len": 130, "num_heads": heads, "out_dtype": dtype}
    close(AlibiFwdOp(**params, device="cpu")(), reference.alibi(**params))


def test_alibi_overflows_to_infinity_in_half():
    biases = AlibiFwdOp(seq_len=2, num_heads=1, out_dtype=torch.float16, device="cpu")()
    assert biases.tolist() == [[[0.0, -(2.0**-8)], [-(2.0**-8), 0.0]]]


def test_functions_do_not_share_entries(draw):
    op = AddFwdOp()
    op(draw(3), draw(3))
    op(draw(4, 5), draw(5))
    op(draw(3).half(), draw(3).half())
    assert len(op.built_entries("binary")) == 2
