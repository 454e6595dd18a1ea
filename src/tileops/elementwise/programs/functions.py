"""Functions of corresponding elements as TileLang expressions.

A function takes its operands in the type it computes in (float32 for floats, int32 or int64 for
integers and truths) and its settings by keyword, and returns a value of that type or a truth. Not
for memory access, which `pointwise.py` arranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.vectors import kept

Function = Callable[..., Any]


def _libm(name: str, *operands: Any) -> Any:
    return T.call_extern("float32", name, *operands)


def _like(value: Any, operand: Any) -> Any:
    """A number as a constant of an operand's type; integers truncate."""
    is_float = operand.dtype == "float32"
    return tirx.const(float(value) if is_float else int(value), operand.dtype)


def _choose(condition: Any, first: Any, second: Any) -> Any:
    """Both values are computed: a choice is cheaper than a branch."""
    return tirx.Select(condition, first, second)


def _equal(x: Any, y: Any) -> Any:
    return tirx.EQ(x, tirx.const(y, x.dtype) if isinstance(y, float) else y)


def _differ(x: Any, y: Any) -> Any:
    return T.Not(_equal(x, y))


def _is_nan(x: Any) -> Any:
    return T.isnan(x) if x.dtype == "float32" else tirx.const(False, "bool")


def _is_inf(x: Any) -> Any:
    return (
        _equal(T.abs(x), _like(math.inf, x)) if x.dtype == "float32" else tirx.const(False, "bool")
    )


def _maximum(x: Any, y: Any) -> Any:
    """The larger; NaN wins."""
    return _choose(T.Or(x > y, _is_nan(x)), x, y)


def _minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN wins."""
    return _choose(T.Or(x < y, _is_nan(x)), x, y)


def _clamp(x: Any, lower: Any = None, upper: Any = None, *, min: Any = None, max: Any = None):
    """Clamp by operands or by numbers, the lower bound first."""
    lower = lower if min is None else _like(min, x)
    upper = upper if max is None else _like(max, x)
    if lower is not None:
        x = kept(_maximum(lower, x))
    return x if upper is None else _minimum(upper, x)


def _add(x: Any, y: Any, *, alpha: float) -> Any:
    return x + y if alpha == 1 else x + _like(alpha, y) * y


def _sub(x: Any, y: Any, *, alpha: float) -> Any:
    return x - y if alpha == 1 else x - _like(alpha, y) * y


def _div(x: Any, y: Any, *, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return x / y
    if rounding_mode == "trunc":
        return _libm("truncf", x / y)
    return _floor_div(x, y)


def _floor_div(x: Any, y: Any) -> Any:
    """The true quotient towards -inf."""
    nearest, rest, near = _nearest_quotient(x, y)
    whole = _choose(_against(rest, y), nearest - 1.0, nearest)
    return _unless(near, whole, lambda: _floor_div_by_fmod(x, y))


def _floor_div_by_fmod(x: Any, y: Any) -> Any:
    """The same of any operands."""
    rest = kept(_libm("fmodf", x, y))
    whole = kept((x - rest) / y)
    whole = kept(_choose(_against(rest, y), whole - 1.0, whole))
    down = kept(_libm("floorf", whole))
    down = _choose(whole - down > 0.5, down + 1.0, down)
    quotient = kept(x / y)
    down = _choose(_equal(whole, 0.0), _libm("copysignf", 0.0, quotient), down)
    return _choose(_equal(y, 0.0), quotient, down)


def _against(rest: Any, y: Any) -> Any:
    """Whether there is a rest, of another sign than the divisor."""
    return T.And(_differ(rest, 0.0), _differ(y < 0.0, rest < 0.0))


def _remainder(x: Any, y: Any) -> Any:
    rest = kept(_libm("fmodf", x, y))
    return _choose(_against(rest, y), rest + y, rest)


def _unless(condition: Any, value: Any, otherwise: Callable[[], Any]) -> Any:
    """`value`, or what a branch computes where the condition fails: rare and dear."""
    register = T.alloc_local((1,), value.dtype)
    T.buffer_store(register, value, [0])
    # Kept, since the negation of a comparison would be taken for the opposite one in spite of NaN.
    with T.If(T.Not(kept(condition))), T.Then():
        T.buffer_store(register, otherwise(), [0])
    return register[0]


def _nearest_quotient(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """An integer nearest to the quotient, the rest, and whether both can be trusted.

    Below 2^20 the approximate quotient is less than a quarter away from the true one, so that the
    rest, whose sign is exact, settles on which side of the integer the true one lies. That of
    infinity and NaN is never trusted.
    """
    quotient = kept(_libm("__fdividef", x, y))
    nearest = kept(_libm("rintf", quotient))
    size = T.abs(y)
    near = T.And(T.abs(quotient) < 2.0**20, T.And(size > 2.0**-100, size < 2.0**100))
    return nearest, kept(_libm("fmaf", -nearest, y, x)), near


def _remainder_half(x: Any, y: Any) -> Any:
    _, rest, near = _nearest_quotient(x, y)
    return _unless(near, _choose(_against(rest, y), rest + y, rest), lambda: _remainder(x, y))


def _pow_half(x: Any, y: Any) -> Any:
    """By the device's own logarithm and exponential where their errors do not grow."""
    size = T.abs(x)
    power = kept(T.exp2(y * _libm("__log2f", size)))
    is_odd = _differ(_libm("floorf", y * 0.5) * 2.0, y)
    signed = _choose(is_odd, -power, power)
    negative = _choose(_equal(_libm("floorf", y), y), signed, T.float32(math.nan))
    near = T.And(T.And(size > 2.0**-100, size < 2.0**100), T.abs(y) < 64.0)
    return _unless(near, _choose(x < 0.0, negative, power), lambda: _libm("powf", x, y))


def _lerp(x: Any, end: Any, weight: Any) -> Any:
    """Exact at both ends: the formula changes in the middle."""
    if isinstance(weight, int | float):
        weight = _like(weight, x)
    return _choose(T.abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1.0 - weight))


def _sign(x: Any) -> Any:
    one, zero = _like(1, x), _like(0, x)
    return _choose(x > zero, one, _choose(x < zero, -one, zero))


def _rounded(x: Any, *, decimals: int) -> Any:
    if x.dtype != "float32":
        return x
    power = _like(10.0 ** abs(decimals), x)
    if decimals > 0:
        return _libm("rintf", x * power) / power
    return _libm("rintf", x / power) * power if decimals else _libm("rintf", x)


def _whole(name: str) -> Function:
    """A rounding to integers, which integers pass unchanged."""
    return lambda x: _libm(name, x) if x.dtype == "float32" else x


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + T.exp(-x))


def _silu(x: Any) -> Any:
    return x / (1.0 + T.exp(-x))


def _mish(x: Any) -> Any:
    """`tanh(log(1 + e))` is a quotient of polynomials in `e = exp(x)`."""
    e = kept(T.exp(x))
    n = kept(e * (e + 2.0))
    return _choose(x > 20.0, x, x * (n / (n + 2.0)))


def _expm1(x: Any) -> Any:
    return _libm("expm1f", x)


def _expm1_half(x: Any) -> Any:
    return _choose(T.abs(x) < 0.01, x * (1.0 + 0.5 * x), T.exp(x) - 1.0)


def _log_near_one(d: Any) -> Any:
    """`log(1 + d)` for small `d`."""
    return d * (1.0 - d * (0.5 - d * (1.0 / 3.0 - d * 0.25)))


def _log1p_half(x: Any) -> Any:
    """By the device's own logarithm, whose error near 1 is absolute, but there."""
    return _choose(T.abs(x) < 0.03, kept(_log_near_one(x)), kept(_libm("__logf", 1.0 + x)))


def _log_half(x: Any) -> Any:
    return _choose(T.abs(x - 1.0) < 0.03, kept(_log_near_one(x - 1.0)), kept(_libm("__logf", x)))


def _sqrt_half(x: Any) -> Any:
    """By the device's own inverse root, which is infinite at 0 and 0 at infinity."""
    return _choose(T.Or(_equal(x, 0.0), _equal(x, math.inf)), x, x * T.rsqrt(x))


def _tanh_half(x: Any) -> Any:
    return _choose(T.abs(x) < 0.01, x, 1.0 - 2.0 / (1.0 + T.exp(2.0 * x)))


_ROUNDING = 1.5 * 2.0**23
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _elu_by(expm1: Function) -> Function:
    return lambda x, *, alpha: _choose(x > 0.0, x, _like(alpha, x) * expm1(x))


def _selu_by(expm1: Function) -> Function:
    return lambda x: _SELU_SCALE * _choose(x > 0.0, x, _SELU_ALPHA * expm1(x))


def _gelu_tanh(x: Any) -> Any:
    """`(1 + tanh(u)) / 2` is the sigmoid of `2 u`."""
    return x / (1.0 + T.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return _gelu_tanh(x)
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


def _half_erfc(x: Any) -> Any:
    """`erfc(x / sqrt(2)) / 2` for `x >= 0`, to 1e-7."""
    t = kept(1.0 / (1.0 + x * (0.3275911 * math.sqrt(0.5))))
    q = t * (0.530702714)
    q = t * (-0.726576014 + q)
    q = t * (0.710706871 + q)
    q = t * (-0.142248368 + q)
    q = t * (0.127414796 + q)
    return q * T.exp2(x * x * -0.7213475204444817)


def _gelu_half(x: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return _gelu_tanh(x)
    tail = kept(_half_erfc(T.abs(x)))
    return x * _choose(x >= 0.0, 1.0 - tail, tail)


_ERF = (
    1.1283705943399953, -0.3759588825369087, 0.11226830695495026, -0.026087642775655485,
    0.004667025549780901, -0.0006180808034187383, 5.6147342436082165e-05, -3.070976831091556e-06,
    7.530368765471705e-08,
)  # fmt: skip
_SINE = (0.9999990605062555, -0.16665553749779569, 0.008311895456128038, -0.00018488005353257115)


def _odd(x: Any, factors: Sequence[float]) -> Any:
    """The sum of `factors[i] * x ** (2 * i + 1)`."""
    square = kept(x * x)
    value = _like(factors[-1], x)
    for factor in factors[-2::-1]:
        value = value * square + _like(factor, x)
    return x * value


def _erf_half(x: Any) -> Any:
    """An odd polynomial, to 8e-6, of numbers beyond which the result rounds to one."""
    x = kept(_choose(x > 2.75, T.float32(2.75), x))
    return _odd(kept(_choose(x < -2.75, T.float32(-2.75), x)), _ERF)


def _sine_half(phase: float, otherwise: Function) -> Function:
    """`sin(x + pi * phase)`, to 1e-6, by an odd polynomial of the distance from the nearest root.

    Adding 1.5 * 2^23 rounds to an integer, in the lowest bits of the sum. Pi is the sum of two
    numbers; the product with the first is exact.
    """

    def sine(x: Any) -> Any:
        turned = x * (1.0 / math.pi)
        shifted = kept((turned + phase if phase else turned) + _ROUNDING)
        root = kept(shifted - _ROUNDING)
        root = root - phase if phase else root
        rest = _libm("fmaf", root, -3.141592502593994, x)
        rest = kept(_libm("fmaf", root, -1.5099579897537296e-07, rest))
        sign = T.shift_left(T.reinterpret(shifted, "uint32"), T.uint32(31))
        value = kept(_odd(rest, _SINE))
        value = T.reinterpret(T.bitwise_xor(T.reinterpret(value, "uint32"), sign), "float32")
        return _unless(T.abs(x) < 2.0**16, value, lambda: otherwise(x))

    return sine


def _softplus_by(log1p: Function) -> Function:
    def softplus(x: Any, *, beta: float, threshold: float) -> Any:
        scaled = kept(x * _like(beta, x))
        value = kept(log1p(kept(T.exp(scaled))) * _like(1.0 / beta, x))
        return _choose(scaled > _like(threshold, x), x, value)

    return softplus


def _nan_to_num(x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    infinity = _like(math.inf, x)
    x = kept(
        _choose(
            _equal(x, infinity),
            _like(posinf, x),
            _choose(_equal(x, -infinity), _like(neginf, x), x),
        )
    )
    return _choose(T.isnan(x), _like(nan, x), x)


def _truth(x: Any) -> Any:
    return tirx.NE(x, _like(0, x))


FUNCTIONS: Mapping[str, Function] = {
    "abs": lambda x: T.abs(x) if x.dtype == "float32" else _choose(x < _like(0, x), -x, x),
    "add": _add,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_not": T.bitwise_not,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "ceil": _whole("ceilf"),
    "clamp": _clamp,
    "cos": T.cos,
    "div": _div,
    "elu": _elu_by(_expm1),
    "eq": tirx.EQ,
    "erf": T.erf,
    "exp": T.exp,
    "expm1": _expm1,
    "floor": _whole("floorf"),
    "ge": lambda x, y: x >= y,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "gt": lambda x, y: x > y,
    "hardsigmoid": lambda x: _clamp(x + 3.0, min=0, max=6) * (1.0 / 6.0),
    "hardswish": lambda x: x * _clamp(x + 3.0, min=0, max=6) * (1.0 / 6.0),
    "hardtanh": lambda x, *, min_val, max_val: _clamp(x, min=min_val, max=max_val),
    "isfinite": lambda x: T.Not(T.Or(_is_nan(x), _is_inf(x))),
    "isinf": _is_inf,
    "isnan": _is_nan,
    "le": lambda x, y: x <= y,
    "leaky_relu": lambda x, *, negative_slope: _choose(x > 0.0, x, x * _like(negative_slope, x)),
    "lerp": _lerp,
    "log": T.log,
    "log1p": lambda x: _libm("log1pf", x),
    "logical_and": lambda x, y: T.And(_truth(x), _truth(y)),
    "logical_not": lambda x: T.Not(_truth(x)),
    "logical_or": lambda x, y: T.Or(_truth(x), _truth(y)),
    "lt": lambda x, y: x < y,
    "masked_fill": lambda x, mask, *, value: _choose(_truth(mask), _like(value, x), x),
    "maximum": _maximum,
    "minimum": _minimum,
    "mish": _mish,
    "mul": lambda x, y: x * y,
    "nan_to_num": _nan_to_num,
    "ne": tirx.NE,
    "neg": lambda x: -x,
    "pow": lambda x, y: _libm("powf", x, y),
    "prelu": lambda x, slope: _choose(x > 0.0, x, x * slope),
    "reciprocal": lambda x: 1.0 / T.cast(x, "float32"),
    "relu": lambda x: _choose(x < 0.0, _like(0, x), x),
    "remainder": _remainder,
    "round": _rounded,
    "rsqrt": T.rsqrt,
    "selu": _selu_by(_expm1),
    "sigmoid": _sigmoid,
    "sign": _sign,
    "silu": _silu,
    "sin": T.sin,
    "softplus": _softplus_by(lambda x: _libm("log1pf", x)),
    "sqrt": T.sqrt,
    "sub": _sub,
    "tanh": lambda x: _libm("tanhf", x),
    "trunc": _whole("truncf"),
    "where": lambda condition, x, y: _choose(_truth(condition), x, y),
}
"""Every function by the name that call specs use."""

HALF_FUNCTIONS: Mapping[str, Function] = {
    "elu": _elu_by(_expm1_half),
    "cos": _sine_half(0.5, T.cos),
    "erf": _erf_half,
    "expm1": _expm1_half,
    "gelu": _gelu_half,
    "log": _log_half,
    "log1p": _log1p_half,
    "pow": _pow_half,
    "remainder": _remainder_half,
    "selu": _selu_by(_expm1_half),
    "sin": _sine_half(0.0, T.sin),
    "softplus": _softplus_by(_log1p_half),
    "sqrt": _sqrt_half,
    "tanh": _tanh_half,
}
"""Cheaper forms, exact to well below the rounding to 16 bits: precise ones would take longer than
memory does."""

FAST_IN_HALF = frozenset(
    {"elu", "exp", "expm1", "gelu", "gelu_tanh", "mish", "selu", "sigmoid", "silu", "softplus",
     "tanh"}
)  # fmt: skip
"""Functions that 16-bit results let use the device's approximate exponential and division."""
