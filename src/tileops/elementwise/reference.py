"""References of the elementwise family: float64 from the inputs as given, rounded once.

Integers and bool are computed as they are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def _wide(x: Tensor) -> Tensor:
    """A float tensor in float64, any other as it is."""
    return x.double() if x.is_floating_point() else x


def silu(input: Tensor, *, inplace: bool = False) -> Tensor:
    """`x * sigmoid(x)`; the reference never writes its input."""
    return (input.double() * torch.sigmoid(input.double())).to(input.dtype)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """`x * Φ(x)`, or `x / 2 * (1 + tanh(sqrt(2 / π) * (x + 0.044715 x³)))`."""
    x = input.double()
    if approximate == "tanh":
        twice = 1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
    else:
        twice = torch.special.erfc(-x / 2**0.5)
    return (x * twice / 2).to(input.dtype)


def clamp_tensor(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """The lower bound first, then the upper; NaN wins."""
    result = input.double()
    if min is not None:
        result = torch.maximum(result, min.double())
    if max is not None:
        result = torch.minimum(result, max.double())
    return result.to(input.dtype)


def exp(input: Tensor) -> Tensor:
    """`e^x`."""
    return torch.exp(input.double()).to(input.dtype)


def rsqrt(input: Tensor) -> Tensor:
    """`1 / sqrt(x)`."""
    return (1 / torch.sqrt(input.double())).to(input.dtype)


def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """`input + alpha * other`."""
    return torch.add(_wide(input), _wide(other), alpha=alpha).to(input.dtype)


def mul(input: Tensor, other: Tensor) -> Tensor:
    """`input * other`."""
    return (_wide(input) * _wide(other)).to(input.dtype)


def div(input: Tensor, other: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """`input / other`, rounded as `rounding_mode` says before it is rounded to the dtype."""
    quotient = torch.div(input.double(), other.double(), rounding_mode=rounding_mode)
    return quotient.to(input.dtype)


def masked_fill_scalar(input: Tensor, mask: Tensor, *, value: float = 0.0) -> Tensor:
    """`value` where the mask is true."""
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    result = input.expand(shape).clone()
    result[mask.expand(shape)] = value
    return result


def where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """`input` where the condition is true, else `other`."""
    shape = torch.broadcast_shapes(condition.shape, input.shape, other.shape)
    result, chosen = other.expand(shape).clone(), condition.expand(shape)
    result[chosen] = input.expand(shape)[chosen]
    return result


def silu_and_mul(x: Tensor) -> Tensor:
    """`silu(gate) * value` with the gate in the left half of each row."""
    gate, value = x.double().chunk(2, dim=1)
    return (F.silu(gate) * value).to(x.dtype)


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
