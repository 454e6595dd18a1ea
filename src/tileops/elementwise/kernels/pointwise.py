"""Interfaces of pointwise and gated functions and their plain-torch implementations.

One interface per access pattern; which function it applies is a field of the call spec.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._kernels.pieces import by_rows
from tileops.elementwise.kernels.layout import Layout
from tileops.kernels import CallSpec, KernelInterface, PortableKernel

HALF = (torch.float16, torch.bfloat16)
"""Dtypes whose arithmetic is done in float32."""
_ROWS = 64  # along an axis are enough to cut a tensor there


@dataclass(frozen=True)
class PointwiseCall(CallSpec):
    """One function of corresponding elements.

    Args:
        function: what the op computes, in torch's words. Of one tensor: `"abs"`, `"bitwise_not"`,
            `"ceil"`, `"clamp"`, `"cos"`, `"elu"`, `"erf"`, `"exp"`, `"expm1"`, `"floor"`, `"gelu"`,
            `"gelu_tanh"`, `"hardsigmoid"`, `"hardswish"`, `"hardtanh"`, `"isfinite"`, `"isinf"`,
            `"isnan"`, `"leaky_relu"`, `"log"`, `"log1p"`, `"logical_not"`, `"mish"`,
            `"nan_to_num"`, `"neg"`, `"reciprocal"`, `"relu"`, `"round"`, `"rsqrt"`, `"selu"`,
            `"sigmoid"`, `"sign"`, `"silu"`, `"sin"`, `"softplus"`, `"sqrt"`, `"tanh"`, `"trunc"`.
            Of two: `"add"`, `"bitwise_and"`, `"bitwise_or"`, `"bitwise_xor"`, `"div"`, `"eq"`,
            `"ge"`, `"gt"`, `"le"`, `"lerp"`, `"logical_and"`, `"logical_or"`, `"lt"`,
            `"masked_fill"`, `"maximum"`, `"minimum"`, `"mul"`, `"ne"`, `"pow"`, `"prelu"`,
            `"remainder"`, `"sub"`. Of three: `"clamp"`, `"lerp"`, `"where"`.
        dtype: element type of the data operands.
        out_dtype: element type of the result.
        settings: the function's parameters, as `(name, value)` pairs.
        inplace: whether the result is written into the first operand.
        layout: how the operands lie, on an accelerator; None where nobody asks.
    """

    function: str
    dtype: torch.dtype
    out_dtype: torch.dtype
    settings: tuple[tuple[str, Any], ...] = ()
    inplace: bool = False
    layout: Layout | None = None


class UnaryFwdInterface(KernelInterface):
    """`function(input)` for each element."""

    request = PointwiseCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Apply the function.

        Args:
            input: any shape and strides, `call.dtype`, on `call.device`; read, and written where
                `call.inplace` is true (then no two of its elements share a place).

        Returns:
            `input` itself where `call.inplace` is true, else a new contiguous tensor of its shape
            in `call.out_dtype`. Half types are evaluated in float32 and rounded once; integers
            wrap.
        """


class BinaryFwdInterface(KernelInterface):
    """`function(input, other)` for each pair of broadcast elements."""

    request = PointwiseCall

    @abstractmethod
    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """Apply the function.

        Args:
            input: any shape and strides, `call.dtype`, on `call.device`; read.
            other: likewise, broadcastable against `input`; read. For `"masked_fill"` it is the
                mask, bool.

        Returns:
            A new contiguous tensor of the broadcast shape in `call.out_dtype`. Half types are
            evaluated in float32 and rounded once; integers wrap.
        """


class TernaryFwdInterface(KernelInterface):
    """`function(first, second, third)` for each triple of broadcast elements."""

    request = PointwiseCall

    @abstractmethod
    def forward(self, first: Tensor, second: Tensor | None, third: Tensor | None) -> Tensor:
        """Apply the function.

        Args:
            first: any shape and strides, on `call.device`; read. For `"where"` it is the
                condition, bool; else `call.dtype`.
            second: `call.dtype`, broadcastable, on `call.device`; read. For `"clamp"` it is the
                lower bound or None.
            third: likewise. For `"clamp"` it is the upper bound or None; not both are None.

        Returns:
            A new contiguous tensor of the broadcast shape in `call.out_dtype`.
        """


class PointwisePortableKernel(
    PortableKernel[PointwiseCall], UnaryFwdInterface, BinaryFwdInterface, TernaryFwdInterface
):
    """Pointwise functions by torch, whose loops compute half types in float32."""

    def __init__(self, call: PointwiseCall) -> None:
        super().__init__(call)
        self._function = partial(FUNCTIONS[call.function], **dict(call.settings))

    def forward(self, *operands: Tensor | None) -> Tensor:
        """Apply the function to broadcast operands."""
        result: Tensor = self._function(*operands)
        return result if self.call.inplace else result.contiguous()


def _add(input: Tensor, other: Tensor, *, alpha: float) -> Tensor:
    """`input + alpha * other`; torch.add alone would round `alpha` itself to a half type."""
    if alpha == 1 or input.dtype not in HALF:
        return torch.add(input, other, alpha=alpha)
    return torch.addcmul(input, other, input.new_ones(()), value=alpha)


def _sub(input: Tensor, other: Tensor, *, alpha: float) -> Tensor:
    """`input - alpha * other`, with `alpha` as given."""
    if alpha == 1 or input.dtype not in HALF:
        return torch.sub(input, other, alpha=alpha)
    return _add(input, other, alpha=-alpha)


def _div(input: Tensor, other: Tensor, *, rounding_mode: str | None) -> Tensor:
    """The quotient; torch.div would round the quotient of half types before `rounding_mode`."""
    if rounding_mode is None or input.dtype not in HALF:
        return torch.div(input, other, rounding_mode=rounding_mode)
    output = input.new_empty(torch.broadcast_shapes(input.shape, other.shape))
    result = output if output.dim() else output[None]
    sizes = [min(size, _ROWS) for size in result.shape]
    axis = sizes.index(max(sizes))
    operands = [input.expand(result.shape), other[(None,) * (result.dim() - other.dim())]]
    same = [operands.pop().float()] if operands[1].shape[axis] == 1 else []  # for every row

    def divided(output: Tensor, operands: Iterator[Tensor]) -> None:
        torch.div(*operands, *same, rounding_mode=rounding_mode, out=output)

    by_rows(divided, [result], operands, axis)
    return output


def _reciprocal(input: Tensor) -> Tensor:
    """`1 / x`, of integers in float32 whatever torch's default dtype is."""
    return torch.reciprocal(input if input.is_floating_point() else input.float())


def _round(input: Tensor, *, decimals: int) -> Tensor:
    """Half to even; torch takes `decimals` for floats only."""
    return torch.round(input, decimals=decimals) if decimals else torch.round(input)


def _prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Torch takes the slopes as one row."""
    return F.prelu(input, weight.reshape(-1))


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "log1p", "expm1", "sigmoid",
            "abs", "neg", "sign", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite",
            "logical_not", "bitwise_not", "clamp", "nan_to_num", "mul", "maximum", "minimum",
            "remainder", "pow", "lerp", "eq", "ne", "gt", "lt", "ge", "le", "logical_and",
            "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor", "masked_fill", "where",
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            "silu", "relu", "hardswish", "hardsigmoid", "mish", "selu", "leaky_relu", "elu",
            "hardtanh", "gelu", "softplus",
        )
    },
    "add": _add,
    "div": _div,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "prelu": _prelu,
    "reciprocal": _reciprocal,
    "round": _round,
    "sub": _sub,
}  # fmt: skip
"""Torch's version of each function, by the name that call specs use."""


@dataclass(frozen=True)
class GatedCall(CallSpec):
    """`function(gate) * value` where each row of `2 * n` elements holds gate, then value.

    Args:
        function: `"silu"`, `"gelu"`, or `"gelu_tanh"`, its approximation by tanh.
        n: length of the gate, and of the value.
        dtype: element type of input and result.
    """

    function: str
    n: int
    dtype: torch.dtype


class GatedFwdInterface(KernelInterface):
    """`function(x[:, :n]) * x[:, n:]`."""

    request = GatedCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Apply the gate.

        Args:
            x: `[M, 2 * n]` in `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`; function and product are float32, rounded
            once. `M` is positive and varies between calls.
        """


GATES: Mapping[str, Callable[..., Tensor]] = {
    "silu": torch.ops.aten.silu.out,
    "gelu": torch.ops.aten.gelu.out,
    "gelu_tanh": partial(torch.ops.aten.gelu.out, approximate="tanh"),
}
"""Torch's version of each function of a gate that writes its result into `out`."""


class GatedPortableKernel(PortableKernel[GatedCall], GatedFwdInterface):
    """The gate by torch, in float32 between the two halves of a row."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the gate."""
        n, function = self.call.n, GATES[self.call.function]

        def gated(output: Tensor, halves: Iterator[Tensor]) -> None:
            function(next(halves), out=output)
            output.mul_(next(halves))

        output = x.new_empty(x.shape[0], n)
        by_rows(gated, [output], [x[:, :n], x[:, n:]])
        return output
