"""Products with weights of 4-bit codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.gemm.kernels.packing import unpack, unrepack
from tileops.kernels import CallSpec, KernelInterface, PortableKernel

UNPACKED_ELEMENTS = 1 << 26
"""Most elements of a weight that are unpacked at once."""


@dataclass(frozen=True)
class GemmW4A16Call(CallSpec):
    """`activation @ w.T` with `w = (q - zero) * scale`.

    Args:
        m: rows of the activation; it varies between calls and serves selection only.
        n: rows of the weight.
        k: columns of both.
        group_size: columns that share a scale and a zero point.
        dtype: element type of the activation, the scales and the result.
    """

    m: int
    n: int
    k: int
    group_size: int
    dtype: torch.dtype


class GemmW4A16FwdInterface(KernelInterface):
    """The product with a packed weight."""

    request = GemmW4A16Call

    @abstractmethod
    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply.

        All tensors are on `call.device`, of any strides, and only read.

        Args:
            activation: `[m, k]` in `call.dtype`.
            packed_weight: `[n, k // 2]` uint8, two codes to a byte in the order of `repack`.
            weight_scale: `[n, k // group_size]` in `call.dtype`.
            weight_zero: `[n, k // group_size]` uint8 of `[0, 16)`.

        Returns:
            A new contiguous `[m, n]` in `call.dtype`, accumulated in float32 and rounded once.
        """


class GemmW4A16PortableKernel(PortableKernel[GemmW4A16Call], GemmW4A16FwdInterface):
    """The product with unpacked weights, a band of their rows at a time."""

    @classmethod
    def entry_for(
        cls, call: GemmW4A16Call
    ) -> tuple[Hashable, Callable[[], GemmW4A16PortableKernel]]:
        """One build for each group size."""
        return call.group_size, lambda: cls(call)

    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply."""
        (m, k), n = activation.shape, packed_weight.shape[0]
        output = activation.new_empty(m, n)
        band = max(1, UNPACKED_ELEMENTS // max(1, k))
        for start in range(0, n, band):
            rows = slice(start, start + band)
            weight = self._unpacked(packed_weight[rows], weight_scale[rows], weight_zero[rows])
            output[:, rows] = activation @ weight.T
        return output

    def _unpacked(self, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """The weight that codes stand for, in the scale's dtype."""
        codes = unpack(unrepack(packed)).view(*scale.shape, self.call.group_size)
        centred = codes.to(scale.dtype) - zero[:, :, None]
        return (centred * scale[:, :, None]).flatten(1)
