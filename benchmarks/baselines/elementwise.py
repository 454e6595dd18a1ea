"""Elementwise functions as other libraries have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline

SAME_NAME = (
    "Exp Rsqrt Sin Cos Log Sqrt Tanh Erf Log1p Expm1 Sigmoid Abs Neg Sign Reciprocal Floor Ceil "
    "Trunc LogicalNot BitwiseNot Isnan Isinf Isfinite Mul Maximum Minimum Remainder Pow Eq Ne Gt "
    "Lt Ge Le BitwiseAnd BitwiseOr BitwiseXor Where"
)
"""Functions of tensors alone that torch has under the op's own name."""
SNAKE = {
    "LogicalNot": "logical_not",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "BitwiseNot": "bitwise_not",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "FloorDivide": "floor_divide",
}


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the inputs alone."""
    return lambda op, *inputs: function(*inputs)


for _name in (*SAME_NAME.split(), "LogicalAnd", "LogicalOr", "FloorDivide"):
    _function = getattr(torch, SNAKE.get(_name, _name.lower()))
    baseline("torch", f"{_name}FwdOp")(plain(_function))


def activation(function: Callable[..., Any]) -> Callable[..., Any]:
    """An activation that can write its input."""
    return lambda op, x: function(x, inplace=op.inplace)


for _name in ("silu", "relu", "hardswish", "hardsigmoid", "mish", "selu"):
    baseline("torch", f"{_name.capitalize()}FwdOp")(activation(getattr(F, _name)))


@baseline("torch", "LeakyReluFwdOp")
def leaky_relu(op: Any, x: Tensor) -> Tensor:
    return F.leaky_relu(x, op.negative_slope, op.inplace)


@baseline("torch", "EluFwdOp")
def elu(op: Any, x: Tensor) -> Tensor:
    return F.elu(x, op.alpha, op.inplace)


@baseline("torch", "HardtanhFwdOp")
def hardtanh(op: Any, x: Tensor) -> Tensor:
    return F.hardtanh(x, op.min_val, op.max_val, op.inplace)


@baseline("torch", "GeluFwdOp")
def gelu(op: Any, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=op.approximate)


@baseline("torch", "SoftplusFwdOp")
def softplus(op: Any, x: Tensor) -> Tensor:
    return F.softplus(x, op.beta, op.threshold)


@baseline("torch", "ClampTensorFwdOp")
def clamp_tensor(op: Any, x: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    return torch.clamp(x, low, high)


@baseline("torch", "ClampScalarFwdOp")
def clamp_scalar(op: Any, x: Tensor) -> Tensor:
    return torch.clamp(x, op.min, op.max)


@baseline("torch", "NanToNumFwdOp")
def nan_to_num(op: Any, x: Tensor) -> Tensor:
    return torch.nan_to_num(x, op.nan, op.posinf, op.neginf)


@baseline("torch", "RoundFwdOp")
def rounded(op: Any, x: Tensor) -> Tensor:
    return torch.round(x, decimals=op.decimals)


@baseline("torch", "AddFwdOp")
def add(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.add(a, b, alpha=op.alpha)


@baseline("torch", "SubFwdOp")
def sub(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.sub(a, b, alpha=op.alpha)


@baseline("torch", "DivFwdOp")
def div(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b, rounding_mode=op.rounding_mode)


@baseline("torch", "LerpFwdOp")
def lerp(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.lerp(a, b, op.weight)


@baseline("torch", "LerpTensorFwdOp")
def lerp_tensor(op: Any, a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return torch.lerp(a, b, weight)


@baseline("torch", "MaskedFillFwdOp")
def masked_fill(op: Any, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask, value, x)


@baseline("torch", "MaskedFillScalarFwdOp")
def masked_fill_scalar(op: Any, x: Tensor, mask: Tensor) -> Tensor:
    return torch.masked_fill(x, mask, op.value)


@baseline("torch", "PreluFwdOp")
def prelu(op: Any, x: Tensor, weight: Tensor) -> Tensor:
    return F.prelu(x, weight)


def gate(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A gated activation; the gate is the left half of each row."""

    def gated(op: Any, x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return function(left) * right

    return gated


baseline("torch", "SiluAndMulFwdOp")(gate(F.silu))
baseline("torch", "GeluAndMulFwdOp")(gate(F.gelu))
baseline("torch", "GeluTanhAndMulFwdOp")(gate(lambda x: F.gelu(x, approximate="tanh")))


@baseline("torch", "AlibiFwdOp")
def alibi(op: Any) -> Tensor:
    head = torch.arange(1, op.num_heads + 1, device=op.device)
    position = torch.arange(op.seq_len, device=op.device)
    slope = torch.exp2(-8 * head / op.num_heads)
    distance = (position[:, None] - position).abs()
    return (-slope[:, None, None] * distance).to(op.out_dtype)


@baseline("torch", "SinusoidalFwdOp")
def sinusoidal(op: Any) -> Tensor:
    pair = torch.arange(0, op.d_model, 2, device=op.device)
    position = torch.arange(op.seq_len, device=op.device)
    angle = position[:, None] / 10000 ** (pair / op.d_model)
    table = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
    return table[:, : op.d_model].to(op.out_dtype)


@baseline("liger", "SiluAndMulFwdOp")
def liger_swiglu(op: Any, x: Tensor) -> Tensor:
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction

    return LigerFusedGateUpSiLUMulFunction.apply(x)


def gate_backward(function: Callable[[Tensor], Tensor], back: Any) -> Callable[..., Tensor]:
    """The gradient of a gated activation."""

    def backward(op: Any, grad: Tensor, x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return torch.cat((back(grad * right, left), grad * function(left)), -1)

    return backward


def gelu_back(approximate: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The gradient of an exact or approximate gelu."""
    return lambda grad, x: torch.ops.aten.gelu_backward(grad, x, approximate=approximate)


baseline("torch", "SiluAndMulBwdOp")(gate_backward(F.silu, torch.ops.aten.silu_backward))
baseline("torch", "GeluAndMulBwdOp")(gate_backward(F.gelu, gelu_back("none")))
baseline("torch", "GeluTanhAndMulBwdOp")(
    gate_backward(lambda x: F.gelu(x, approximate="tanh"), gelu_back("tanh"))
)
