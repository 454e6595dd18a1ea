"""Pointwise ops on the device: accuracy, broadcasts, views, writes, builds, more than 2³¹ elements.

Results are compared with the reference's in float64 on the same inputs.
"""

from __future__ import annotations

import pytest
import torch

from tileops import elementwise
from tileops._kernels.philox import philox
from tileops.elementwise import reference

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.float32]
# One rounding to the dtype of a float32 result; functions are exact to a few units of float32.
TOLERANCE = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-6},
    torch.float16: {"rtol": 2.0**-10, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 1e-4},
}
UNARY = ["Silu", "Relu", "Hardswish", "Hardsigmoid", "Mish", "Selu", "LeakyRelu", "Elu", "Hardtanh",
         "Gelu", "Softplus", "NanToNum", "Exp", "Sin", "Cos", "Tanh", "Erf", "Expm1", "Sigmoid",
         "Abs", "Neg", "Sign", "Reciprocal", "Floor", "Ceil", "Trunc", "Round"]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Maximum", "Minimum", "Div", "FloorDivide", "Remainder", "Lerp",
          "Pow"]  # fmt: skip


def exact(op, *operands):
    """The op's function on float64 operands, by the portable kernel."""
    wide = [item.double() if item.is_floating_point() else item for item in operands]
    from tileops.elementwise.kernels import FUNCTIONS

    settings = {name: getattr(op, name) for name in op.settings if name != "inplace"}
    if op.function == "nan_to_num":
        limits = torch.finfo(operands[0].dtype)
        settings |= {"posinf": limits.max, "neginf": limits.min}
    return FUNCTIONS[op.function](*wide, **settings)


def check(op, *operands):
    output = op(*operands)
    wide = exact(op, *operands)
    if output.dtype in TOLERANCE:
        wide = wide.to(output.dtype).double()  # overflow to infinity
        torch.testing.assert_close(output.double(), wide, **TOLERANCE[output.dtype], equal_nan=True)
    else:
        assert torch.equal(output, wide)
    assert output.is_contiguous()
    return output


def values(draw, *shape, dtype):
    x = draw(*shape, dtype=torch.float32, scale=4.0)
    if x.numel() > 8:
        x.view(-1)[:5] = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0])
    return x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(draw, serving, name, dtype):
    op = getattr(elementwise, f"{name}FwdOp")()
    for shape in ((), (1,), (77,), (3, 1025), (64, 4096)):
        check(op, values(draw, *shape, dtype=dtype))
    assert serving(op, "unary") == {"PointwiseTileKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["Log", "Sqrt", "Rsqrt", "Log1p"])
def test_functions_of_positive_numbers(draw, name, dtype):
    check(getattr(elementwise, f"{name}FwdOp")(), values(draw, 3, 1025, dtype=dtype).abs() + 0.125)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_tensors(draw, serving, name, dtype):
    op = getattr(elementwise, f"{name}FwdOp")()
    x, y = draw(63, 1030, dtype=dtype), draw(63, 1030, dtype=dtype)
    check(op, x, y)
    assert serving(op, "binary") == {"PointwiseTileKernel"}


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32, torch.int8, torch.bool])
@pytest.mark.parametrize("name", ["Eq", "Ne", "Gt", "Lt", "Ge", "Le", "LogicalAnd", "LogicalOr"])
def test_relations(draw, name, dtype):
    op = getattr(elementwise, f"{name}FwdOp")()
    x, y = ((draw(33, 1030) * 3).round().to(dtype) for _ in range(2))
    check(op, x, y)
    check(op, x, y[:1])


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "Add", "Mul", "Maximum"])
def test_integers_and_truths(draw, name, dtype):
    op = getattr(elementwise, f"{name}FwdOp")()
    x, y = (draw(7, 4099, scale=60).to(torch.int32).to(dtype) for _ in range(2))
    check(op, x, y)


SHAPES = [
    ((1024, 4096), (1, 4096)), ((16, 8, 56, 56), (8, 1, 1)), ((512, 1), (1, 320)),
    ((64, 33), (33,)), ((5, 1, 7, 1), (1, 6, 1, 9)), ((2, 1, 3, 1, 8), (1, 5, 1, 4, 8)),
    ((40, 40), ()), ((300,), (1,)), ((0, 4), (1, 4)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("first", "second"), SHAPES, ids=str)
def test_broadcasts(draw, first, second, dtype):
    check(elementwise.AddFwdOp(alpha=2), draw(*first, dtype=dtype), draw(*second, dtype=dtype))
    check(elementwise.SubFwdOp(), draw(*second, dtype=dtype), draw(*first, dtype=dtype))


def test_three_operands(draw):
    mask = draw(1, 1, 64, 64) > 0
    x = draw(2, 3, 64, 64, dtype=torch.bfloat16)
    y = elementwise.WhereFwdOp()(mask, x, x.new_tensor(-7.0))
    assert torch.equal(y, torch.where(mask, x, x.new_tensor(-7.0)))
    filled = elementwise.MaskedFillScalarFwdOp(value=-torch.inf)(x, mask)
    assert torch.equal(filled, x.masked_fill(mask, -torch.inf))
    low, high = draw(64, dtype=torch.bfloat16), draw(3, 1, 1, dtype=torch.bfloat16)
    clamp = elementwise.ClampTensorFwdOp()
    assert torch.equal(clamp(x, low, high), torch.clamp(x, low, high))
    assert torch.equal(clamp(x, None, high), torch.clamp(x, max=high))
    slopes = draw(3, dtype=torch.bfloat16)
    wide = torch.nn.functional.prelu(x.double(), slopes.double())
    result = elementwise.PreluFwdOp()(x, slopes).double()
    torch.testing.assert_close(result, wide, **TOLERANCE[torch.bfloat16])


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_read_as_they_are(draw, dtype):
    base = draw(40, 520, dtype=dtype)
    views = [base[::3, 8:264], base[:, ::2], base.T, base[:, 1:], base[3].expand(9, 520),
             base.flatten()[1:5001], base[:, 5:6], base[:, :1].expand(40, 64)]  # fmt: skip
    for view in views:
        check(elementwise.SiluFwdOp(), view)
        check(elementwise.MulFwdOp(), view, view[:1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_ops_write_through(draw, dtype):
    base = draw(48, 96, dtype=dtype)
    for take in (lambda x: x, lambda x: x.T, lambda x: x[:, 3:50], lambda x: x[::2, ::3]):
        x = base.clone()
        view = take(x)
        wanted = base.clone()
        take(wanted).copy_(torch.nn.functional.silu(take(base).double()))
        assert elementwise.SiluFwdOp(inplace=True)(view) is view
        torch.testing.assert_close(x.double(), wanted.double(), **TOLERANCE[dtype])
    with pytest.raises(Exception, match="overlap|expanded|same place|share"):
        elementwise.ReluFwdOp(inplace=True)(base[:1].expand(48, 96))


def test_500_row_counts_make_two_entries_at_most(draw, programs):
    op = elementwise.AddFwdOp()
    x, bias = draw(500, 1024, dtype=torch.bfloat16), draw(1024, dtype=torch.bfloat16)
    whole = op(x, bias)
    for rows in range(1, 501):
        assert torch.equal(op(x[:rows], bias), whole[:rows])
    assert len(op.built_entries("binary")) <= 2
    assert len(programs) <= 2


@pytest.mark.parametrize("count", [(1 << 31) + 4099, (1 << 31) - 100])
def test_more_than_31_bits_of_elements(count):
    x = torch.ones(count, dtype=torch.int8, device="cuda")
    x[-1] = 5
    x[1 << 30] = 7
    y = elementwise.NegFwdOp()(x)
    assert y[-1] == -5
    assert y[1 << 30] == -7
    assert int((y == -1).sum()) == count - 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["Silu", "Gelu", "GeluTanh"])
def test_gates(draw, serving, name, dtype):
    op = getattr(elementwise, f"{name}AndMulFwdOp")()
    function = {"silu": reference.silu, "gelu": torch.nn.functional.gelu}.get(op.function)
    if function is None:
        function = lambda x: torch.nn.functional.gelu(x, approximate="tanh")  # noqa: E731
    for rows, n in ((1, 14336), (33, 1024), (3, 1001), (5, 1), (70, 4)):
        x = draw(rows, 2 * n, dtype=dtype)
        wide = x.double()
        expected = function(wide[:, :n]) * wide[:, n:]
        torch.testing.assert_close(op(x).double(), expected, **TOLERANCE[dtype])
    assert serving(op, "gated") == {"GatedTileKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(draw, serving, programs, dtype):
    for p, seed, shape in ((0.3, 2**40 + 3, (333, 4096)), (0.5, -1, (7, 33)), (0.9, 0, (1,))):
        x = draw(*shape, dtype=dtype)
        op = elementwise.DropoutFwdOp(p, seed)
        expected = reference.dropout(x.double(), p=p, seed=seed)
        torch.testing.assert_close(op(x).double(), expected, **TOLERANCE[dtype])
        assert torch.equal(op(x[1:]), op(x[1:].clone()))
        assert serving(op, "dropout") == {"DropoutTileKernel"}
    made = len(programs)
    for n in range(1, 500, 37):
        op(draw(n, dtype=dtype))
    assert len(programs) == made
    x[0] = torch.nan
    assert elementwise.DropoutFwdOp(1.0)(x).eq(0).all()
    assert elementwise.DropoutFwdOp(0.0)(x).isnan().all()
    assert elementwise.DropoutFwdOp()(x[:0]).numel() == 0


def test_dropout_of_more_than_31_bits_of_elements():
    first = 1 << 31
    x = torch.ones(first + 4099, dtype=torch.bfloat16, device="cuda")
    y = elementwise.DropoutFwdOp(0.25, 3)(x)
    block = torch.arange(first // 4, first // 4 + 1025, device="cuda")
    drawn = torch.stack(philox((3, 0), (block, 0, 0, 0)), -1).view(-1)[:4099]
    assert torch.equal(y[first:] != 0, drawn >= 2**30)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_made_of_parameters(serving, dtype):
    made = {"out_dtype": dtype, "device": "cuda"}
    wide = {"out_dtype": torch.float64, "device": "cuda"}
    for heads, length in ((32, 2048), (7, 333), (1, 1)):
        op = elementwise.AlibiFwdOp(seq_len=length, num_heads=heads, **made)
        exact = reference.alibi(seq_len=length, num_heads=heads, **wide)
        torch.testing.assert_close(op().double(), exact, **TOLERANCE[dtype])
        assert serving(op, "alibi") == {"AlibiTileKernel"}
    for length, width in ((5000, 4096), (333, 34), (1, 2)):
        op = elementwise.SinusoidalFwdOp(seq_len=length, d_model=width, **made)
        exact = reference.sinusoidal(seq_len=length, d_model=width, **wide)
        torch.testing.assert_close(op().double(), exact, **TOLERANCE[dtype])
        assert serving(op, "sinusoidal") == {"SinusoidalTileKernel"}
