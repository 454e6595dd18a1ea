"""One more implementation of the kernel interface `gemm`."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from tileops.gemm.kernels import GemmCall, GemmFwdInterface
from tileops.kernels import Kernel
from torch import Tensor


class GemmBatchKernel(Kernel, GemmFwdInterface):
    """Products with 65 to 128 rows, by the library that torch calls.

    The library is faster there than TileOPs' pipelined kernel; for fewer rows TileOPs has kernels
    of their own, which this one leaves alone.

    Args:
        trans_a: whether the first factor is stored transposed.
        trans_b: whether the second factor is stored transposed.
    """

    devices = frozenset({"cpu", "cuda"})
    preferred_over = frozenset({"pipelined"})

    ROWS = range(65, 129)

    def __init__(self, trans_a: bool, trans_b: bool) -> None:
        super().__init__()
        self.trans_a, self.trans_b = trans_a, trans_b

    @classmethod
    def refusal(cls, call: GemmCall) -> str | None:
        """Refuses fewer and more rows."""
        if call.m not in cls.ROWS:
            return f"multiplies {cls.ROWS[0]} to {cls.ROWS[-1]} rows, not {call.m}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemmBatchKernel]]:
        """One build for each pair of layouts; no extent and no dtype is compiled in."""
        layouts = (call.trans_a, call.trans_b)
        return layouts, lambda: cls(*layouts)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        return torch.mm(a.mT if self.trans_a else a, b.mT if self.trans_b else b)
