"""One more implementation of the kernel interface `gemm`."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from tileops.gemm.kernels import GemmCall, GemmFwdInterface
from tileops.kernels import Kernel
from torch import Tensor


class GemmThinKernel(Kernel, GemmFwdInterface):
    """Products with at most 16 rows, by the library that torch calls.

    Such a product reads a large matrix once and does little with it. TileOPs' pipelined kernel cuts
    the result into tiles of at least 64 rows, of which most would be padding.

    Args:
        trans_a: whether the first factor is stored transposed.
        trans_b: whether the second factor is stored transposed.
    """

    devices = frozenset({"cpu", "cuda"})
    preferred_over = frozenset({"gemv", "pipelined"})

    MOST_ROWS = 16

    def __init__(self, trans_a: bool, trans_b: bool) -> None:
        super().__init__()
        self.trans_a, self.trans_b = trans_a, trans_b

    @classmethod
    def refusal(cls, call: GemmCall) -> str | None:
        """Refuses many rows."""
        if call.m > cls.MOST_ROWS:
            return f"multiplies at most {cls.MOST_ROWS} rows, not {call.m}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemmThinKernel]]:
        """One build for each pair of layouts; no extent and no dtype is compiled in."""
        layouts = (call.trans_a, call.trans_b)
        return layouts, lambda: cls(*layouts)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        return torch.mm(a.mT if self.trans_a else a, b.mT if self.trans_b else b)
