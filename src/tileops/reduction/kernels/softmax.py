"""Softmax along an axis: interface, implementation by torch, kernels that TileLang makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops._kernels.scratch import scratch
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel
from tileops.reduction.kernels.layout import row_parts


@dataclass(frozen=True)
class SoftmaxCall(CallSpec):
    """Softmax, or its logarithm, along one axis; the input is cast to `out_dtype` first.

    Args:
        rank: number of axes of the input.
        axis: the axis, non-negative.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
        n: length of the axis where it is the innermost, on an accelerator; else None.
        few: whether blocks must share rows to keep the device busy.
    """

    rank: int
    axis: int
    dtype: torch.dtype
    out_dtype: torch.dtype
    log: bool = False
    n: int | None = None
    few: bool = False


def are_few(rows: int, n: int) -> bool:
    """Whether rows of `n` elements are so few and long that blocks should share them."""
    return rows <= 64 and n > SoftmaxOnChipKernel.LONGEST_ROW


class SoftmaxFwdInterface(KernelInterface):
    """`exp(x - max) / sum(exp(x - max))` along an axis, or its logarithm."""

    request = SoftmaxCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Normalise along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.out_dtype`. Maximum, exponentials and
            sum are float32, rounded once. A row of -inf gives NaN.
        """


class SoftmaxPortableKernel(PortableKernel[SoftmaxCall], SoftmaxFwdInterface):
    """Softmax by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise along the axis of the call spec."""
        function = F.log_softmax if self.call.log else F.softmax
        return function(x, self.call.axis, dtype=self.call.out_dtype).contiguous()


class _SoftmaxKernel(Kernel, SoftmaxFwdInterface):
    """Softmax along the innermost axis."""

    supported_archs = frozenset({HOPPER})

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """Refuses other axes, and inputs that are rounded before they are normalised."""
        if not call.n:
            return "normalises along an innermost axis of known, positive length"
        if call.out_dtype is not torch.float32 and call.dtype is not call.out_dtype:
            return f"does not round {call.dtype} to {call.out_dtype} first"
        return super().refusal(call)


def _softmax_vector(call: SoftmaxCall) -> int:
    """Elements of the widest access that divides a row of input and result."""
    assert call.n is not None
    return gcd(BOUNDARY // max(call.dtype.itemsize, call.out_dtype.itemsize), call.n)


class SoftmaxOnChipKernel(_SoftmaxKernel):
    """Softmax with each row held in registers: one read, one write.

    Args:
        n: elements of a row.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
    """

    preferred_over = frozenset({"streaming"})

    LONGEST_ROW = 1 << 14
    """Elements of the longest row that the registers of a block hold."""

    def __init__(self, n: int, dtype: torch.dtype, out_dtype: torch.dtype, log: bool) -> None:
        super().__init__()
        self.n, self.dtype, self.out_dtype, self.log = n, dtype, out_dtype, log

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """Refuses rows that do not fit."""
        if call.n is not None and call.n > cls.LONGEST_ROW:
            return f"holds rows of at most {cls.LONGEST_ROW} elements in registers, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], SoftmaxOnChipKernel]]:
        """One build for each length of rows; their number is none of it."""
        assert call.n is not None
        constants = (call.n, call.dtype, call.out_dtype, call.log)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """At most 32 elements a thread, and blocks of at least four warps."""
        lanes = 32
        while lanes < 512 and self.n > lanes * 32:
            lanes *= 2
        return {"lanes": lanes, "rows": max(1, 128 // lanes)}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_softmax_on_chip

        names = dtype_name(self.dtype), dtype_name(self.out_dtype)
        return build_softmax_on_chip(self.n, *names, log=self.log, **config).compile(HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        rows = aligned(x.contiguous()).view(-1, self.n)
        output = torch.empty(x.shape, dtype=self.out_dtype, device=x.device)
        self.program()(rows, output.view(-1, self.n))
        return output


class SoftmaxStreamingKernel(_SoftmaxKernel):
    """Softmax of rows of any length: the second read of a row mostly hits the L2 cache.

    Args:
        vector: elements of one access, a divisor of the rows' length.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
    """

    def __init__(self, vector: int, dtype: torch.dtype, out_dtype: torch.dtype, log: bool) -> None:
        super().__init__()
        self.vector, self.dtype, self.out_dtype, self.log = vector, dtype, out_dtype, log

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], SoftmaxStreamingKernel]]:
        """One build for all lengths that allow the same accesses."""
        constants = (_softmax_vector(call), call.dtype, call.out_dtype, call.log)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory."""
        return {"threads": 1024, "unroll": 2}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_softmax_streaming

        names = dtype_name(self.dtype), dtype_name(self.out_dtype)
        program = build_softmax_streaming(*names, log=self.log, vector=self.vector, **config)
        return program.compile(HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        line = aligned(x.contiguous()).view(-1)
        output = torch.empty(x.shape, dtype=self.out_dtype, device=x.device)
        self.program()(line, output.view(-1, x.shape[-1]))
        return output


class SoftmaxSplitKernel(_SoftmaxKernel):
    """Softmax of few long rows, each shared by several blocks in two launches.

    Args:
        vector: elements of one access, a divisor of the rows' length.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
    """

    preferred_over = frozenset({"streaming"})

    def __init__(self, vector: int, dtype: torch.dtype, out_dtype: torch.dtype, log: bool) -> None:
        super().__init__()
        self.vector, self.dtype, self.out_dtype, self.log = vector, dtype, out_dtype, log

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """Refuses rows that are enough for the device, a block each."""
        if call.n and not call.few:
            return "shares rows among blocks only where they are few and long"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], SoftmaxSplitKernel]]:
        """One build for all lengths that allow the same accesses."""
        constants = (_softmax_vector(call), call.dtype, call.out_dtype, call.log)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Small blocks, of which many fit a multiprocessor."""
        return {"threads": 256, "unroll": 2}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_softmax_split

        names = dtype_name(self.dtype), dtype_name(self.out_dtype)
        program = build_softmax_split(*names, log=self.log, vector=self.vector, **config)
        return program.compile(HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        n = x.shape[-1]
        line = aligned(x.contiguous()).view(-1)
        output = torch.empty(x.shape, dtype=self.out_dtype, device=x.device)
        rows = x.numel() // n
        parts = row_parts(rows, n, self.vector)
        (states,) = scratch(x.device, (2, rows * parts))
        self.program()(line, states, output.view(rows, n), parts)
        return output
