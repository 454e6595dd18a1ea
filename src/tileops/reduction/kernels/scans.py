"""Running values along an axis: interface and implementations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class ScanCall(CallSpec):
    """Running values along one axis.

    Args:
        function: `"cumsum"` or `"cumprod"`.
        rank: number of axes of the input.
        axis: the axis, non-negative.
        dtype: element type of input and result.
        n: length of the axis where it is the innermost, on an accelerator; else None.
    """

    function: str
    rank: int
    axis: int
    dtype: torch.dtype
    n: int | None = None


class ScanFwdInterface(KernelInterface):
    """The sum or product of all elements up to each, along an axis."""

    request = ScanCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.dtype`. The running value is float32;
            each element is rounded once.
        """


class ScanPortableKernel(PortableKernel[ScanCall], ScanFwdInterface):
    """Scans by torch, which carries half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along the axis of the call spec."""
        function = torch.cumsum if self.call.function == "cumsum" else torch.cumprod
        return function(x, self.call.axis).contiguous()


class RowScanKernel(Kernel, ScanFwdInterface):
    """Scans along the innermost axis: one read, one write.

    Args:
        function: `"cumsum"` or `"cumprod"`.
        dtype: element type.
        vector: elements of one access, a divisor of the rows' length.
        long: whether a row is worth more than one tile of the largest block.
    """

    supported_archs = frozenset({HOPPER})

    _LONG = 1 << 14  # elements

    def __init__(self, function: str, dtype: torch.dtype, vector: int, long: bool) -> None:
        super().__init__()
        self.function, self.dtype, self.vector, self.long = function, dtype, vector, long

    @classmethod
    def refusal(cls, call: ScanCall) -> str | None:
        """Refuses other axes, and numbers that are not floating point."""
        if not call.n:
            return "scans along an innermost axis of known, positive length"
        if call.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return f"scans no {call.dtype}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: ScanCall) -> tuple[Hashable, Callable[[], RowScanKernel]]:
        """One build for all row counts, and for all lengths that allow the same accesses."""
        assert call.n is not None
        vector = widest_access(call.n, call.dtype)
        constants = (call.function, call.dtype, vector, call.n >= cls._LONG)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Long rows are walked by as many threads as a block has, others by several blocks."""
        if self.long:
            return {"threads": 1024, "unroll": 1}
        return {"threads": 128, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_row_scan

        name = dtype_name(self.dtype)
        program = build_row_scan(self.function, name, vector=self.vector, **config)
        return program.compile(HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along every row."""
        rows = aligned(x.contiguous()).view(-1, x.shape[-1])
        output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        self.program()(rows, output.view(rows.shape))
        return output
