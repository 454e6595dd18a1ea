"""Kernel interfaces of the elementwise family and their plain-torch implementations.

One interface per access pattern; which function it applies is a field of the call spec. Not for
TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel

HALF = (torch.float16, torch.bfloat16)
"""Dtypes whose arithmetic is done in float32."""


@dataclass(frozen=True)
class PointwiseCall(CallSpec):
    """One function of corresponding elements.

    Args:
        function: name of the function, such as `"add"`.
        dtype: element type of the data operands and of the result.
        settings: the function's parameters, as `(name, value)` pairs.
        inplace: whether the result is written into the first operand.
    """

    function: str
    dtype: torch.dtype
    settings: tuple[tuple[str, Any], ...] = ()
    inplace: bool = False


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
            and dtype. Half types are evaluated in float32 and rounded once.
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
            A new contiguous tensor of the broadcast shape in `call.dtype`. Half types are
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
            A new contiguous tensor of the broadcast shape in `call.dtype`.
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


def _div(input: Tensor, other: Tensor, *, rounding_mode: str | None) -> Tensor:
    """The quotient; torch.div would round the quotient of half types before `rounding_mode`."""
    if rounding_mode is None or input.dtype not in HALF:
        return torch.div(input, other, rounding_mode=rounding_mode)
    quotient = torch.div(input.float(), other.float(), rounding_mode=rounding_mode)
    return quotient.to(input.dtype)


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "add": _add,
    "clamp": torch.clamp,
    "div": _div,
    "exp": torch.exp,
    "gelu": F.gelu,
    "masked_fill": torch.masked_fill,
    "mul": torch.mul,
    "rsqrt": torch.rsqrt,
    "silu": F.silu,
    "where": torch.where,
}
"""Torch's version of each function, by the name that call specs use."""


@dataclass(frozen=True)
class GatedCall(CallSpec):
    """`function(gate) * value` where each row of `2 * n` elements holds gate, then value."""

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


class GatedPortableKernel(PortableKernel[GatedCall], GatedFwdInterface):
    """The gate by torch, in float32 between the two halves of a row."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the gate."""
        gate, value = x[:, : self.call.n], x[:, self.call.n :]
        return FUNCTIONS[self.call.function](gate.float()).mul_(value).to(x.dtype)


@dataclass(frozen=True)
class AlibiCall(CallSpec):
    """Attention biases of `num_heads` heads over `seq_len` positions."""

    seq_len: int
    num_heads: int
    dtype: torch.dtype


class AlibiFwdInterface(KernelInterface):
    """`-2^(-8 (h + 1) / num_heads) * abs(i - j)`."""

    request = AlibiCall

    @abstractmethod
    def forward(self) -> Tensor:
        """Make the biases.

        Returns:
            A new contiguous `[num_heads, seq_len, seq_len]` in `call.dtype` on `call.device`,
            computed in float32 and rounded once.
        """


class AlibiPortableKernel(PortableKernel[AlibiCall], AlibiFwdInterface):
    """The biases by torch, a head at a time."""

    def forward(self) -> Tensor:
        """Make the biases."""
        call = self.call
        shape = (call.num_heads, call.seq_len, call.seq_len)
        biases = torch.empty(shape, dtype=call.dtype, device=call.device)
        position = torch.arange(call.seq_len, dtype=torch.float32, device=call.device)
        distance = (position[:, None] - position).abs_()
        for head, bias in enumerate(biases):
            bias.copy_(distance * -(2.0 ** (-8 * (head + 1) / call.num_heads)))
        return biases
