"""Kernel interfaces of the gemm family and their plain-torch implementations.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class GemmCall(CallSpec):
    """`d[m, n] = A[m, k] @ B[k, n]`, either factor stored transposed.

    `m` serves selection only (few rows want another algorithm than many): it varies between calls
    and is part of no identity.
    """

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    dtype: torch.dtype


class GemmFwdInterface(KernelInterface):
    """The product of two matrices."""

    request = GemmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply.

        Args:
            a: `[m, k]`, or `[k, m]` when `call.trans_a`, in `call.dtype`, any strides, on
                `call.device`; read.
            b: `[k, n]`, or `[n, k]` when `call.trans_b`, likewise; read.

        Returns:
            A new contiguous `[m, n]` in `call.dtype`, accumulated in float32 and rounded once;
            zeros when `k` is 0. `m` and `n` are positive.
        """


class GemmPortableKernel(PortableKernel[GemmCall], GemmFwdInterface):
    """The product by torch."""

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemmPortableKernel]]:
        """One build for each pair of layouts."""
        return (call.trans_a, call.trans_b), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        left = a.mT if self.call.trans_a else a
        return torch.mm(left, b.mT if self.call.trans_b else b)


@dataclass(frozen=True)
class BmmCall(CallSpec):
    """`d[b, m, n] = a[b, m, k] @ b[b, k, n]` for each `b`; `m` as in `GemmCall`."""

    m: int
    n: int
    k: int
    dtype: torch.dtype


class BmmFwdInterface(KernelInterface):
    """The products of two equally long runs of matrices."""

    request = BmmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair.

        Args:
            a: `[B, m, k]` in `call.dtype`, any strides, on `call.device`; read.
            b: `[B, k, n]` likewise; read.

        Returns:
            A new contiguous `[B, m, n]` in `call.dtype`, accumulated in float32 and rounded once;
            zeros when `k` is 0. `B`, `m` and `n` are positive; `B` and `m` vary between calls.
        """


class BmmPortableKernel(PortableKernel[BmmCall], BmmFwdInterface):
    """The products by torch."""

    @classmethod
    def entry_for(cls, call: BmmCall) -> tuple[Hashable, Callable[[], BmmPortableKernel]]:
        """One build for all calls."""
        return (), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair."""
        return torch.bmm(a, b)
