"""References of the elementwise family: float64 from the inputs as given, rounded once.

Integers and bool are computed as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def _wide(x: Tensor) -> Tensor:
    """A float tensor in float64, any other as it is."""
    return x.double() if x.is_floating_point() else x


def _unary(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The reference of a function of one tensor that keeps its dtype."""
    return lambda input: function(_wide(input)).to(input.dtype)


def _inplace(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The reference of an activation; it never writes its input."""
    return lambda input, *, inplace=False: function(input.double()).to(input.dtype)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The reference of a function of two tensors that keeps their dtype."""
    return lambda input, other: function(_wide(input), _wide(other)).to(input.dtype)


# Activations

silu = _inplace(lambda x: x * torch.sigmoid(x))
relu = _inplace(lambda x: torch.where(x < 0, 0.0, x))
hardswish = _inplace(lambda x: x * (x + 3).clamp(0, 6) / 6)
hardsigmoid = _inplace(lambda x: (x + 3).clamp(0, 6) / 6)
mish = _inplace(lambda x: x * torch.tanh(torch.logaddexp(x, torch.zeros_like(x))))
selu = _inplace(F.selu)


def leaky_relu(input: Tensor, *, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` where positive, else `negative_slope * x`."""
    x = input.double()
    return torch.where(x > 0, x, negative_slope * x).to(input.dtype)


def elu(input: Tensor, *, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where positive, else `alpha * expm1(x)`."""
    x = input.double()
    return torch.where(x > 0, x, alpha * torch.expm1(x)).to(input.dtype)


def hardtanh(
    input: Tensor, *, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`x` clamped; NaN stays."""
    return clamp_scalar(input, min=min_val, max=max_val)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """`x * Φ(x)`, or `x / 2 * (1 + tanh(sqrt(2 / π) * (x + 0.044715 x³)))`."""
    x = input.double()
    if approximate == "tanh":
        twice = 1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
    else:
        twice = torch.special.erfc(-x / 2**0.5)
    return (x * twice / 2).to(input.dtype)


def softplus(input: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta * x)) / beta`, `x` itself beyond the threshold."""
    scaled = beta * input.double()
    soft = torch.logaddexp(scaled, torch.zeros_like(scaled))
    return torch.where(scaled > threshold, input.double(), soft / beta).to(input.dtype)


def clamp_tensor(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """The lower bound first, then the upper; NaN wins."""
    result = input.double()
    if min is not None:
        result = torch.maximum(result, min.double())
    if max is not None:
        result = torch.minimum(result, max.double())
    return result.to(input.dtype)


def clamp_scalar(
    input: Tensor, *, min: complex | None = None, max: complex | None = None
) -> Tensor:
    """The lower bound first, then the upper; NaN wins."""
    low, high = (None if b is None else torch.tensor(b, dtype=torch.float64) for b in (min, max))
    return clamp_tensor(input, low, high)


def nan_to_num(
    input: Tensor, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """`nan`, `posinf` and `neginf` in the place of NaN and the infinities."""
    limits, x = torch.finfo(input.dtype), input.double()
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    finite = torch.where(x == torch.inf, high, torch.where(x == -torch.inf, low, x))
    return torch.where(x.isnan(), nan, finite).to(input.dtype)


# Functions and predicates of one tensor

exp = _unary(torch.exp)
log = _unary(torch.log)
sqrt = _unary(torch.sqrt)
rsqrt = _unary(lambda x: 1 / torch.sqrt(x))
sin = _unary(torch.sin)
cos = _unary(torch.cos)
tanh = _unary(torch.tanh)
erf = _unary(torch.erf)
log1p = _unary(torch.log1p)
expm1 = _unary(torch.expm1)
sigmoid = _unary(lambda x: 1 / (1 + torch.exp(-x)))
abs = _unary(torch.abs)
neg = _unary(lambda x: 0 * x - x if not x.is_floating_point() else -x)
sign = _unary(lambda x: (x > 0).to(x.dtype) - (x < 0).to(x.dtype))
floor = _unary(torch.floor)
ceil = _unary(torch.ceil)
trunc = _unary(torch.trunc)
bitwise_not = _unary(torch.bitwise_not)


def reciprocal(input: Tensor) -> Tensor:
    """`1 / x`, float32 for integers."""
    dtype = input.dtype if input.is_floating_point() else torch.float32
    return (1 / input.double()).to(dtype)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest multiple of `10^-decimals`, ties to even; float32 decides what ties."""
    if not input.is_floating_point():
        return input.clone()
    scaled = torch.round(input.float() * 10.0**decimals)
    return (scaled.double() / 10.0**decimals).to(input.dtype)


def logical_not(input: Tensor) -> Tensor:
    """Whether an element is zero."""
    return input == 0


def isnan(input: Tensor) -> Tensor:
    """Whether an element differs from itself."""
    return input != input


def isinf(input: Tensor) -> Tensor:
    """Whether an element is infinite."""
    return input.double().abs() == torch.inf


def isfinite(input: Tensor) -> Tensor:
    """Whether an element is below infinity in magnitude."""
    return input.double().abs() < torch.inf


def dropout(input: Tensor, *, p: float = 0.5, seed: int = 0, training: bool = True) -> Tensor:
    """Elements scaled by `1 / (1 - p)` where their random word is at least `p * 2^32`, else 0."""
    if not training or p == 0:
        return input.clone()
    if p == 1:
        return torch.zeros_like(input)
    blocks = torch.arange(-(-input.numel() // 4), device=input.device)
    drawn = _philox(seed % 2**64, blocks).flatten()[: input.numel()]
    kept = drawn >= p * 2**32
    scaled = input.double() / (1 - p)
    return torch.where(kept.reshape(input.shape), scaled, 0.0).to(input.dtype)


def _philox(key: int, block: Tensor) -> Tensor:
    """Four random words of each block: Philox4x32-10 with 64-bit key and counter."""
    a, b, c, d = block % 2**32, block >> 32, torch.zeros_like(block), torch.zeros_like(block)
    first, second = key % 2**32, key >> 32
    for _ in range(10):
        (left, low), (right, below) = _halves(a, 0xD2511F53), _halves(c, 0xCD9E8D57)
        a, b, c, d = right ^ b ^ first, below, left ^ d ^ second, low
        first, second = (first + 0x9E3779B9) % 2**32, (second + 0xBB67AE85) % 2**32
    return torch.stack((a, b, c, d), -1)


def _halves(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """The upper and the lower 32 bits of a product of 32-bit words, without leaving int64."""
    upper, lower = (word >> 16) * factor, (word & 0xFFFF) * factor
    return (upper + (lower >> 16)) >> 16, ((upper << 16) + lower) & 0xFFFFFFFF


# Functions of two tensors

mul = _binary(torch.mul)
maximum = _binary(lambda a, b: _chosen(a, b, a > b))
minimum = _binary(lambda a, b: _chosen(a, b, a < b))
remainder = _binary(torch.remainder)
bitwise_and = _binary(torch.bitwise_and)
bitwise_or = _binary(torch.bitwise_or)
bitwise_xor = _binary(torch.bitwise_xor)


def _chosen(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """`a` where `first` is true or `a` is NaN, else `b`."""
    return torch.where(first | (a != a), a, b)


def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """`input + alpha * other`."""
    return torch.add(_wide(input), _wide(other), alpha=alpha).to(input.dtype)


def sub(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """`input - alpha * other`."""
    return torch.sub(_wide(input), _wide(other), alpha=alpha).to(input.dtype)


def div(input: Tensor, other: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """`input / other`, rounded as `rounding_mode` says before it is rounded to the dtype."""
    quotient = torch.div(input.double(), other.double(), rounding_mode=rounding_mode)
    return quotient.to(input.dtype)


def floor_divide(input: Tensor, other: Tensor) -> Tensor:
    """The quotient rounded toward -inf before it is rounded to the dtype."""
    return div(input, other, rounding_mode="floor")


def pow(input: Tensor, exponent: Tensor) -> Tensor:
    """`input ^ exponent`."""
    return torch.pow(input.double(), exponent.double()).to(input.dtype)


def lerp(input: Tensor, end: Tensor, *, weight: float = 0.5) -> Tensor:
    """`(1 - weight) * input + weight * end`."""
    return lerp_tensor(input, end, torch.tensor(weight, dtype=torch.float64))


def eq(input: Tensor, other: Tensor) -> Tensor:
    """`input == other`."""
    return input == other


def ne(input: Tensor, other: Tensor) -> Tensor:
    """`input != other`."""
    return ~(input == other)


def gt(input: Tensor, other: Tensor) -> Tensor:
    """`input > other`."""
    return input > other


def lt(input: Tensor, other: Tensor) -> Tensor:
    """`input < other`."""
    return other > input


def ge(input: Tensor, other: Tensor) -> Tensor:
    """`input >= other`."""
    return (input > other) | (input == other)


def le(input: Tensor, other: Tensor) -> Tensor:
    """`input <= other`."""
    return (other > input) | (input == other)


def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Whether both are nonzero."""
    return (input != 0) & (other != 0)


def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Whether one is nonzero."""
    return (input != 0) | (other != 0)


def masked_fill(input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """The one element of `value` where the mask is true."""
    return where(mask, value, input)


def masked_fill_scalar(input: Tensor, mask: Tensor, *, value: float = 0.0) -> Tensor:
    """`value` where the mask is true."""
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    result = input.expand(shape).clone()
    result[mask.expand(shape)] = value
    return result


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where positive, else `weight * x` with the weight of the channel."""
    shape = [-1 if axis == 1 else 1 for axis in range(input.dim())]
    slope = weight.double().reshape(shape if weight.numel() > 1 else ())
    x = input.double()
    return torch.where(x > 0, x, slope * x).to(input.dtype)


# Functions of three tensors


def where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """`input` where the condition is true, else `other`."""
    shape = torch.broadcast_shapes(condition.shape, input.shape, other.shape)
    result, chosen = other.expand(shape).clone(), condition.expand(shape)
    result[chosen] = input.expand(shape)[chosen]
    return result


def lerp_tensor(input: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """`(1 - weight) * input + weight * end`."""
    w = weight.double()
    return ((1 - w) * input.double() + w * end.double()).to(input.dtype)


# Gated activations


def silu_and_mul(x: Tensor) -> Tensor:
    """`silu(gate) * value` with the gate in the left half of each row."""
    gate, value = x.double().chunk(2, dim=1)
    return (F.silu(gate) * value).to(x.dtype)


def gelu_and_mul(x: Tensor) -> Tensor:
    """`gelu(gate) * value`."""
    gate, value = x.double().chunk(2, dim=1)
    return (gelu(gate) * value).to(x.dtype)


def gelu_tanh_and_mul(x: Tensor) -> Tensor:
    """`gelu(gate) * value` by the tanh approximation."""
    gate, value = x.double().chunk(2, dim=1)
    return (gelu(gate, approximate="tanh") * value).to(x.dtype)


def silu_and_mul_bwd(grad_out: Tensor, x: Tensor) -> Tensor:
    """`silu(gate) * value`, differentiated by torch."""
    return _differentiated(silu_and_mul, grad_out, x)


def gelu_and_mul_bwd(grad_out: Tensor, x: Tensor) -> Tensor:
    """`gelu(gate) * value`, differentiated by torch."""
    return _differentiated(gelu_and_mul, grad_out, x)


def gelu_tanh_and_mul_bwd(grad_out: Tensor, x: Tensor) -> Tensor:
    """`gelu(gate) * value` by the tanh approximation, differentiated by torch."""
    return _differentiated(gelu_tanh_and_mul, grad_out, x)


def _differentiated(function: Callable[[Tensor], Tensor], grad_out: Tensor, x: Tensor) -> Tensor:
    """The gradient in float64, rounded once."""
    leaf = x.double().requires_grad_()
    with torch.enable_grad():
        found = function(leaf)
    (grad,) = torch.autograd.grad(found, leaf, grad_out.double())
    return grad.to(x.dtype)


# Tensors made of parameters


def alibi(
    *,
    seq_len: int,
    num_heads: int,
    out_dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """`-2^(-8 (h + 1) / num_heads) * abs(i - j)`."""
    head = torch.arange(1, num_heads + 1, dtype=torch.float64, device=device)
    position = torch.arange(seq_len, dtype=torch.float64, device=device)
    slope = torch.pow(2.0, -8 * head / num_heads)
    return (-slope[:, None, None] * (position[:, None] - position).abs()).to(out_dtype)


def sinusoidal(
    *,
    seq_len: int,
    d_model: int,
    out_dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """`sin(p / 10000^(2i / d_model))` and its cosine, alternating."""
    channel = torch.arange(d_model, dtype=torch.float64, device=device)
    position = torch.arange(seq_len, dtype=torch.float64, device=device)
    angle = position[:, None] / 10000 ** ((channel - channel % 2) / d_model)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos()).to(out_dtype)
