"""Kernel interfaces of the elementwise family and their plain-torch implementations.

One interface per access pattern; which function it applies is a field of the call spec. Not for
TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._core.dispatch.alignment import BOUNDARY, aligned
from tileops._core.dispatch.philox import WORD, philox, words
from tileops.elementwise.layout import RANKS, Layout, arrange, in_reach
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

_HOPPER = 90

HALF = (torch.float16, torch.bfloat16)
"""Dtypes whose arithmetic is done in float32."""


@dataclass(frozen=True)
class PointwiseCall(CallSpec):
    """One function of corresponding elements.

    Args:
        function: name of the function, such as `"add"`.
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
    quotient = torch.div(input.float(), other.float(), rounding_mode=rounding_mode)
    return quotient.to(input.dtype)


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


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class PointwiseTileKernel(Kernel, UnaryFwdInterface, BinaryFwdInterface, TernaryFwdInterface):
    """Pointwise functions in one pass over memory, in accesses of up to 16 bytes.

    Args:
        function: name of the function.
        dtype: element type of the data operands.
        out_dtype: element type of the result.
        settings: the function's parameters.
        layout: how the operands lie.
        inplace: whether the result is written into the operand.
    """

    supported_archs = frozenset({_HOPPER})

    DTYPES = frozenset(
        {
            torch.float32, torch.float16, torch.bfloat16, torch.bool,
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        }
    )  # fmt: skip
    """Element types of operands."""
    _MASKS: Mapping[str, int] = {"where": 0, "masked_fill": 1}  # place of an operand of truths

    def __init__(
        self,
        function: str,
        dtype: torch.dtype,
        out_dtype: torch.dtype,
        settings: tuple[tuple[str, Any], ...],
        layout: Layout,
        inplace: bool,
    ) -> None:
        super().__init__()
        self.function, self.dtype, self.out_dtype = function, dtype, out_dtype
        self.settings, self.layout, self.inplace = settings, layout, inplace

    @classmethod
    def refusal(cls, call: PointwiseCall) -> str | None:
        """Refuses other element types, and operands that do not fit its indices."""
        layout = call.layout
        if layout is None:
            return "needs to know how the operands lie"
        if call.dtype not in cls.DTYPES:
            return f"has no element type {call.dtype}"
        if layout.rank > RANKS:
            return f"broadcasts over at most {RANKS} axes, not {layout.rank}"
        if layout.rank > 1 and layout.wide:
            return "broadcasts with indices of 31 bits, which these operands exceed"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: PointwiseCall) -> tuple[Hashable, Callable[[], PointwiseTileKernel]]:
        """One build for all extents of one layout."""
        assert call.layout is not None
        settings = tuple(item for item in call.settings if item[0] != "inplace")
        function, dtype, out_dtype = call.function, call.dtype, call.out_dtype
        constants = (function, dtype, out_dtype, settings, call.layout, call.inplace)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Broadcasts share the work of finding places among two accesses."""
        return {"threads": 256, "unroll": 1 if self.layout.rank == 1 else 2}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise import programs

        layout = self.layout
        along = [advances for advances in layout.along if advances is not None]
        element = self._element()
        if layout.rank == 1:
            program = programs.build_pointwise_flat(
                element, along, layout.vector, wide=layout.wide, **config
            )
        else:
            program = programs.build_pointwise_broadcast(
                element, along, layout.rank, layout.vector, **config
            )
        return program.compile(_HOPPER)

    def _element(self) -> Any:
        """What the program computes of corresponding elements."""
        from tileops.elementwise.programs import Element

        settings = dict(self.settings)
        if self.function == "nan_to_num":
            limits = torch.finfo(self.dtype)
            for name, limit in (("posinf", limits.max), ("neginf", limits.min)):
                settings[name] = limit if settings[name] is None else settings[name]
        places = [place for place, found in enumerate(self.layout.along) if found is not None]
        mask = self._MASKS.get(self.function)
        stored = ["bool" if place == mask else _name(self.dtype) for place in places]
        return Element(self.function, settings, stored, _name(self.out_dtype), places)

    def forward(self, *operands: Tensor | None) -> Tensor:
        """Apply the function to broadcast operands."""
        if self.inplace:
            (operand,) = operands
            assert operand is not None
            return self._write(operand)
        arrangement = arrange(operands, self.out_dtype.itemsize)
        shape = arrangement.shape
        present = [
            item if in_reach(item, shape) else item.contiguous()
            for item in operands
            if item is not None
        ]
        output = torch.empty(shape, dtype=self.out_dtype, device=present[0].device)
        if arrangement.layout.rank == 1:
            present = [aligned(item) for item in present]
        tensors = map(_line, present, arrangement.spans)
        self.program()(*tensors, _line(output, output.numel()), *arrangement.numbers)
        return output

    def _write(self, operand: Tensor) -> Tensor:
        """Apply the function in place, through a copy where the elements have gaps."""
        order = sorted(range(operand.dim()), key=operand.stride, reverse=True)
        dense = operand.permute(order).is_contiguous()
        if dense and operand.data_ptr() % BOUNDARY == 0:
            elements = _line(operand, operand.numel())
            self.program()(elements, elements)
            return operand
        copy = operand.clone(memory_format=torch.contiguous_format)
        return operand.copy_(self._write(copy))


def _line(tensor: Tensor, span: int) -> Tensor:
    """The elements from a tensor's first to its last as one axis, truths as bytes."""
    line = tensor.as_strided((span,), (1,))
    return line.view(torch.uint8) if tensor.dtype is torch.bool else line


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


class GatedTileKernel(Kernel, GatedFwdInterface):
    """The gate in one pass over memory.

    Args:
        function: name of the function.
        dtype: element type.
        vector: elements of one access, a divisor of the row of the result.
    """

    supported_archs = frozenset({_HOPPER})

    def __init__(self, function: str, dtype: torch.dtype, vector: int) -> None:
        super().__init__()
        self.function, self.dtype, self.vector = function, dtype, vector

    @classmethod
    def entry_for(cls, call: GatedCall) -> tuple[Hashable, Callable[[], GatedTileKernel]]:
        """One build for all rows that allow the same accesses."""
        vector = math.gcd(BOUNDARY // call.dtype.itemsize, call.n)
        constants = (call.function, call.dtype, vector)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """One access of each half a thread."""
        return {"threads": 256, "unroll": 1}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Smaller blocks, more accesses a thread."""
        return [
            {"threads": threads, "unroll": unroll} for threads in (256, 128) for unroll in (1, 2)
        ]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise.programs import build_gated

        name = _name(self.dtype)
        return build_gated(self.function, name, self.vector, **config).compile(_HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the gate."""
        output = x.new_empty(x.shape[0], x.shape[1] // 2)
        self.program()(aligned(x), output)
        return output


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


@dataclass(frozen=True)
class SinusoidalCall(CallSpec):
    """Position embeddings of `d_model` channels over `seq_len` positions."""

    seq_len: int
    d_model: int
    dtype: torch.dtype


class SinusoidalFwdInterface(KernelInterface):
    """`sin(p / 10000^(2i / d_model))` in channel `2i`, the cosine in channel `2i + 1`."""

    request = SinusoidalCall

    @abstractmethod
    def forward(self) -> Tensor:
        """Make the embeddings.

        Returns:
            A new contiguous `[seq_len, d_model]` in `call.dtype` on `call.device`; angle, sine and
            cosine are float32 or wider, rounded once.
        """


class SinusoidalPortableKernel(PortableKernel[SinusoidalCall], SinusoidalFwdInterface):
    """The embeddings by torch, from angles in float64."""

    def forward(self) -> Tensor:
        """Make the embeddings."""
        call = self.call
        channel = torch.arange(0, call.d_model, 2, dtype=torch.float64, device=call.device)
        position = torch.arange(call.seq_len, dtype=torch.float64, device=call.device)
        angle = position[:, None] * torch.pow(10000.0, -channel / call.d_model)
        both = torch.stack((angle.sin(), angle.cos()), -1)
        return both.view(call.seq_len, call.d_model).to(call.dtype)


@dataclass(frozen=True)
class DropoutCall(CallSpec):
    """Dropout with a probability in `[0, 1]`: 0 copies, 1 writes zeros and reads nothing."""

    p: float
    seed: int
    dtype: torch.dtype


class DropoutFwdInterface(KernelInterface):
    """`input / (1 - p)` where an element is kept, else 0.

    Element `i`, counted in the order of axes, is kept where word `i % 4` of Philox4x32-10 with the
    key `seed` and the counter `i // 4` (64 bits each, the low word first) is at least
    `p * 2^32`.
    """

    request = DropoutCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Drop elements.

        Args:
            input: any shape, `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            A new contiguous tensor of its shape in `call.dtype`, scaled in float32, rounded once.
        """


class DropoutPortableKernel(PortableKernel[DropoutCall], DropoutFwdInterface):
    """Dropout by torch, in pieces whose random words stay in the cache."""

    PIECE = 1 << 16
    """Elements whose random words are drawn at once; a multiple of 4."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements."""
        if self.call.p == 0:
            return input.clone()
        if self.call.p == 1:
            return torch.zeros_like(input)
        output = torch.empty_like(input)
        given, made = input.view(-1), output.view(-1)
        for start in range(0, given.numel(), self.PIECE):
            piece = slice(start, start + self.PIECE)
            made[piece] = self._dropped(given[piece], start)
        return output

    def _dropped(self, given: Tensor, start: int) -> Tensor:
        """The elements that begin at `start`, a multiple of 4, kept and scaled or 0."""
        count, least = given.numel(), math.ceil(self.call.p * 2**32)
        block = torch.arange(start // 4, (start + count + 3) // 4, device=given.device)
        drawn = philox(words(self.call.seed), (block & WORD, block >> 32, 0, 0))
        kept = torch.stack([word >= least for word in drawn], -1).view(-1)[:count]
        return torch.where(kept, given.float() / (1 - self.call.p), 0.0)
