"""Products with weights of 4-bit codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.alignment import aligned
from tileops._core.dispatch.toolchain import HOPPER
from tileops.gemm.kernels.packing import unpack, unrepack
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

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


class GemmW4A16FewRowsKernel(Kernel, GemmW4A16FwdInterface):
    """The product of few rows, codes decoded on their way to the tensor cores.

    Args:
        group_size: columns that share a scale and a zero point.
        rows: rows of the weight that a block multiplies.
        columns: rows of the activation that it multiplies.
    """

    supported_archs = frozenset({HOPPER})

    MOST_ROWS = 64
    RUN = 128

    def __init__(self, group_size: int, rows: int, columns: int) -> None:
        super().__init__()
        self.group_size, self.rows, self.columns = group_size, rows, columns

    @classmethod
    def refusal(cls, call: GemmW4A16Call) -> str | None:
        """Refuses many rows, and groups that end within a run."""
        if call.m > cls.MOST_ROWS:
            return f"multiplies at most {cls.MOST_ROWS} rows, not {call.m}"
        if call.group_size % cls.RUN:
            return (
                f"adds up runs of {cls.RUN} columns before it scales them, of which "
                f"group_size={call.group_size} is no multiple"
            )
        if call.k == 0:
            return "has no run to multiply when k is 0"
        return super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: GemmW4A16Call
    ) -> tuple[Hashable, Callable[[], GemmW4A16FewRowsKernel]]:
        """One build for each group size and class of shapes."""
        # What more rows of the activation take in registers, more rows of the weight make up for.
        rows = 16 if call.m <= 8 else 32
        columns = next(columns for columns in (8, 16, 32) if call.m <= columns or columns == 32)
        constants = call.group_size, rows, columns
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Warps that share the runs of a row."""
        return {"warps": 16 if self.columns == 8 else 8}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other numbers of warps."""
        return [{"warps": warps} for warps in (4, 8, 16)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import build_gemm_packed

        program = build_gemm_packed(
            group=self.group_size, rows=self.rows, columns=self.columns, **config
        )
        return program.compile(HOPPER)

    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply."""
        output = activation.new_empty(activation.shape[0], packed_weight.shape[0])
        runs = (
            aligned(tensor.contiguous()).view(torch.int32).view(-1, pieces)
            for tensor, pieces in ((activation, self.RUN // 2), (packed_weight, self.RUN // 8))
        )
        groups = (tensor.reshape(-1) for tensor in (weight_scale, weight_zero))
        self.program()(*runs, *groups, output)
        return output
