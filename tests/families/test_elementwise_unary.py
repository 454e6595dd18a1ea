"""Pointwise functions of one tensor: accuracy, special values, views, effects, limits."""

from __future__ import annotations

import math
import re

import pytest
import torch

from tileops import elementwise as ew
from tileops import manifest
from tileops._core.spec import registry
from tileops.elementwise import kernels, reference
from tileops.elementwise.ops.pointwise import UnaryOp
from tileops.errors import SignatureError

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
INF, NAN = math.inf, math.nan

ACTIVATIONS = {
    "silu": ew.SiluFwdOp,
    "relu": ew.ReluFwdOp,
    "hardswish": ew.HardswishFwdOp,
    "hardsigmoid": ew.HardsigmoidFwdOp,
    "mish": ew.MishFwdOp,
    "selu": ew.SeluFwdOp,
    "leaky_relu": ew.LeakyReluFwdOp,
    "elu": ew.EluFwdOp,
    "hardtanh": ew.HardtanhFwdOp,
}
FUNCTIONS = {
    "gelu": ew.GeluFwdOp,
    "softplus": ew.SoftplusFwdOp,
    "nan_to_num": ew.NanToNumFwdOp,
    "exp": ew.ExpFwdOp,
    "log": ew.LogFwdOp,
    "sqrt": ew.SqrtFwdOp,
    "rsqrt": ew.RsqrtFwdOp,
    "sin": ew.SinFwdOp,
    "cos": ew.CosFwdOp,
    "tanh": ew.TanhFwdOp,
    "erf": ew.ErfFwdOp,
    "log1p": ew.Log1pFwdOp,
    "expm1": ew.Expm1FwdOp,
    "sigmoid": ew.SigmoidFwdOp,
    "abs": ew.AbsFwdOp,
    "neg": ew.NegFwdOp,
    "sign": ew.SignFwdOp,
    "reciprocal": ew.ReciprocalFwdOp,
    "floor": ew.FloorFwdOp,
    "ceil": ew.CeilFwdOp,
    "trunc": ew.TruncFwdOp,
    "round": ew.RoundFwdOp,
}
ALL = {**ACTIVATIONS, **FUNCTIONS}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALL)
def test_is_accurate(draw, close, dtype, name):
    for shape in ((), (1,), (7,), (3, 1023), (2, 3, 4, 5)):
        x = draw(*shape, dtype=dtype, scale=3.0)
        close(ALL[name]()(x), getattr(reference, name)(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("gelu", {"approximate": "tanh"}),
        ("leaky_relu", {"negative_slope": 0.3}),
        ("elu", {"alpha": 0.7}),
        ("hardtanh", {"min_val": -0.3, "max_val": 0.7}),
        ("softplus", {"beta": 2.5, "threshold": 3.0}),
        ("softplus", {"beta": -1.5}),
        ("round", {"decimals": 2}),
        ("nan_to_num", {"nan": 2.0, "posinf": 3.5, "neginf": -4.5}),
    ],
    ids=str,
)
def test_parameters(draw, close, dtype, name, params):
    x = draw(2000, dtype=dtype, scale=3.0)
    x[:3] = torch.tensor([NAN, INF, -INF])
    close(ALL[name](**params)(x), getattr(reference, name)(x, **params))


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        (ew.SiluFwdOp(), [-INF, NAN, INF], [NAN, NAN, INF]),
        (ew.GeluFwdOp(), [-INF, NAN, 0.0], [NAN, NAN, 0.0]),
        (ew.ReluFwdOp(), [-INF, NAN, INF], [0.0, NAN, INF]),
        (ew.EluFwdOp(), [-INF, NAN, INF], [-1.0, NAN, INF]),
        (ew.HardtanhFwdOp(), [-INF, NAN, INF], [-1.0, NAN, 1.0]),
        (ew.SoftplusFwdOp(beta=0.0), [1.0, -1.0], [INF, INF]),
        (ew.SoftplusFwdOp(threshold=1.0), [1.25, 7.0], [1.25, 7.0]),
        (ew.SoftplusFwdOp(threshold=1.0), [1.0, -INF], [math.log1p(math.e), 0.0]),
        (ew.ExpFwdOp(), [-INF, INF, NAN, 1000.0], [0.0, INF, NAN, INF]),
        (ew.LogFwdOp(), [0.0, -1.0, INF], [-INF, NAN, INF]),
        (ew.SqrtFwdOp(), [-1.0, INF, 0.0], [NAN, INF, 0.0]),
        (ew.RsqrtFwdOp(), [0.0, -0.0, -1.0, INF], [INF, -INF, NAN, 0.0]),
        (ew.Log1pFwdOp(), [-1.0, 1e-30, -2.0], [-INF, 1e-30, NAN]),
        (ew.Expm1FwdOp(), [1e-30, -INF], [1e-30, -1.0]),
        (ew.SignFwdOp(), [NAN, -0.0, -INF], [0.0, 0.0, -1.0]),
        (ew.RoundFwdOp(), [0.5, 1.5, 2.5, -0.5], [0.0, 2.0, 2.0, 0.0]),
        (ew.ReciprocalFwdOp(), [0.0, -0.0, INF], [INF, -INF, 0.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_special_values(close, op, given, expected):
    close(op(torch.tensor(given)), torch.tensor(expected))


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        (ew.ExpFwdOp(), [12.0], [INF]),
        (ew.NanToNumFwdOp(), [NAN, INF, -INF], [0.0, 65504.0, -65504.0]),
        (ew.ReciprocalFwdOp(), [6e-8], [INF]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_half_overflow(close, op, given, expected):
    close(op(torch.tensor(given).half()), torch.tensor(expected).half())


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inplace_returns_the_input_itself(draw, close, dtype, name):
    x = draw(5, 6, dtype=dtype, scale=3.0)
    expected = getattr(reference, name)(x)
    assert ACTIVATIONS[name](inplace=True)(x) is x
    close(x, expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_inplace_writes_through_strides_and_nothing_else(draw, name):
    base = draw(6, 8)
    before, view = base.clone(), base.T[::2]
    assert ACTIVATIONS[name](inplace=True)(view) is view
    expected = getattr(reference, name)(before[:, ::2])
    torch.testing.assert_close(base[:, ::2], expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(base[:, 1::2], before[:, 1::2])


def test_inplace_refuses_an_expanded_view():
    x = torch.ones(1, 4)
    with pytest.raises(SignatureError, match=r"inputs\.input\.mutated .* overlaps itself"):
        ew.ReluFwdOp(inplace=True)(x.expand(3, 4))
    assert torch.equal(x, torch.ones(1, 4))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_inplace_returns_an_empty_input_as_it_is(name):
    x = torch.empty(3, 0)
    assert ACTIVATIONS[name](inplace=True)(x) is x


@pytest.mark.parametrize("name", ALL)
def test_views(draw, close, name):
    base, op = draw(9, 10).abs(), ALL[name]()
    for view in (base.T[1:, ::3], base[2:, 3:], base[:1].expand(4, 10)):
        close(op(view), op(view.clone()))


def test_an_identity_is_a_new_tensor():
    x = torch.tensor([-1, 2])
    for op in (ew.FloorFwdOp(), ew.CeilFwdOp(), ew.TruncFwdOp(), ew.RoundFwdOp()):
        assert op(x).tolist() == [-1, 2]
        assert op(x).data_ptr() != x.data_ptr()
    y = torch.tensor([1.0])
    for op in (ew.ClampScalarFwdOp(min=0.0), ew.DropoutFwdOp(training=False), ew.ReluFwdOp()):
        assert op(y).data_ptr() != y.data_ptr()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    x = torch.tensor([0, 1, 100], dtype=dtype)
    assert ew.ReciprocalFwdOp()(x).tolist() == [INF, 1.0, pytest.approx(0.01)]
    assert ew.ReciprocalFwdOp()(x).dtype is torch.float32
    assert ew.SignFwdOp()(x).tolist() == [0, 1, 1]
    assert ew.IsfiniteFwdOp()(x).all()
    assert not ew.IsnanFwdOp()(x).any()
    assert not ew.IsinfFwdOp()(x).any()
    with pytest.raises(SignatureError, match=r"shape_rules\[0\].*decimals=1"):
        ew.RoundFwdOp(decimals=1)(x)


def test_a_reciprocal_does_not_follow_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert ew.ReciprocalFwdOp()(torch.tensor([2])).dtype is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_integers_wrap():
    assert ew.NegFwdOp()(torch.tensor([1, 0], dtype=torch.uint8)).tolist() == [255, 0]
    least = torch.tensor([-128], dtype=torch.int8)
    assert ew.AbsFwdOp()(least).tolist() == ew.NegFwdOp()(least).tolist() == [-128]
    assert ew.BitwiseNotFwdOp()(torch.tensor([0, 5], dtype=torch.uint8)).tolist() == [255, 250]
    assert ew.BitwiseNotFwdOp()(torch.tensor([True, False])).tolist() == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_predicates(dtype):
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 2.0], dtype=dtype)
    assert ew.IsnanFwdOp()(x).tolist() == [True, False, False, False, False, False]
    assert ew.IsinfFwdOp()(x).tolist() == [False, True, True, False, False, False]
    assert ew.IsfiniteFwdOp()(x).tolist() == [False, False, False, True, True, True]
    assert ew.LogicalNotFwdOp()(x).tolist() == [False, False, False, True, True, False]


def test_clamp_between_tensors(draw, close):
    x, low, high = draw(3, 1), draw(1, 4), draw(2, 1, 4)
    for bounds in ((low, high), (low, None), (None, high)):
        close(ew.ClampTensorFwdOp()(x, *bounds), reference.clamp_tensor(x, *bounds))


def test_clamp_lets_max_and_nan_win(close):
    x = torch.tensor([0.0, NAN, 0.0, 0.0])
    low, high = torch.tensor([2.0, 0.0, NAN, -INF]), torch.tensor([1.0, 1.0, 1.0, INF])
    close(ew.ClampTensorFwdOp()(x, low, high), torch.tensor([1.0, NAN, NAN, 0.0]))
    close(ew.ClampScalarFwdOp(min=2, max=1)(x), torch.tensor([1.0, NAN, 1.0, 1.0]))


@pytest.mark.parametrize(
    "bounds", [{"min": -0.25}, {"max": 1}, {"min": True}, {"min": -1, "max": 0.5}]
)
def test_clamp_between_numbers(draw, close, bounds):
    for dtype in DTYPES:
        x = draw(500, dtype=dtype)
        close(ew.ClampScalarFwdOp(**bounds)(x), reference.clamp_scalar(x, **bounds))


def test_bounds_that_are_refused():
    x = torch.zeros(2, dtype=torch.float16)
    with pytest.raises(SignatureError, match="min and max are both absent"):
        ew.ClampScalarFwdOp()
    with pytest.raises(SignatureError, match="min and max are both absent"):
        ew.ClampTensorFwdOp()(x)
    with pytest.raises(SignatureError, match=r"representable.*max=1000000\.0"):
        ew.ClampScalarFwdOp(max=1e6)(x)
    with pytest.raises(SignatureError, match="min_val=2.0, max_val=1.0") as raised:
        ew.HardtanhFwdOp(min_val=2.0)
    assert raised.value.phase == "construction"
    with pytest.raises(SignatureError, match="representable") as raised:
        ew.HardtanhFwdOp(max_val=1e6)(x)
    assert raised.value.phase == "call"
    ew.ClampScalarFwdOp(max=INF)(x)


def test_the_call_spec_names_every_function():
    told = kernels.PointwiseCall.__doc__.partition("function:")[2].partition("dtype:")[0]
    assert set(re.findall(r'`"(\w+)"`', told)) == set(kernels.FUNCTIONS)


def test_a_function_that_no_table_has_is_refused_where_the_op_is_defined():
    with pytest.raises(TypeError, match="SoftsignFwdOp: the function 'softsign' is in no table"):
        type("SoftsignFwdOp", (UnaryOp,), {"function": "softsign"})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ((), "settings lacks the parameter 'alpha'"),
        (("alpha", "alhpa"), "settings names 'alhpa', no parameter and no attribute of the class; "
         "did you mean 'alpha'"),
    ],
)  # fmt: skip
def test_settings_that_are_not_the_parameters_are_refused_where_the_op_is_defined(
    settings, told, monkeypatch
):
    monkeypatch.setattr(registry, "_manifest", registry.manifest())
    manifest.register({"UnsetFwdOp": ELU})

    def init(self, alpha=1.0, *, target=None):
        self.alpha = alpha
        UnaryOp.__init__(self, target=target)

    body = {"function": "elu", "settings": settings, "__init__": init}
    with pytest.raises(TypeError, match=f"UnsetFwdOp: {told}"):
        type("UnsetFwdOp", (UnaryOp,), body)


ELU = {
    "family": "elementwise",
    "status": "implemented",
    "signature": {
        "forall": {"S": "Shape", "T": "DType[float32]"},
        "params": {"alpha": {"type": "float", "default": 1.0}},
        "inputs": {"input": {"dtype": "T", "shape": "[*S]"}},
        "outputs": {"output": {"dtype": "T", "shape": "[*S]"}},
    },
    "workloads": [{"S": [4], "dtype_cases": [{"T": "float32"}], "label": "four"}],
    "roofline": {"flops": "prod(S)"},
}
