"""Products with weights of 4-bit codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
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


RUN = 128
"""Columns whose products are added up before they are scaled."""

_MOST_PARTS = 16
_STEP = 2 * RUN  # columns that are copied at once
_FIXED_STEPS = 3  # a part takes the time of so many steps beside its own


def _packed_fault(call: GemmW4A16Call, most: int) -> str | None:
    """Why this is not a product of at most `most` rows with one scale a run, or None."""
    if call.m > most:
        return f"multiplies at most {most} rows, not {call.m}"
    if call.group_size % RUN:
        return (
            f"adds up runs of {RUN} columns before it scales them, of which "
            f"group_size={call.group_size} is no multiple"
        )
    if call.k == 0:
        return "has no run to multiply when k is 0"
    return None


class GemmW4A16FewRowsKernel(Kernel, GemmW4A16FwdInterface):
    """The product of a few rows, codes decoded between memory and one warp's tensor core.

    Args:
        group_size: columns that share a scale and a zero point.
    """

    supported_archs = frozenset({HOPPER})
    preferred_over = frozenset({"split"})

    MOST_ROWS = 8
    MOST_CODES = 1 << 26
    """With a larger weight, copies that run ahead are worth their start."""

    def __init__(self, group_size: int) -> None:
        super().__init__()
        self.group_size = group_size

    @classmethod
    def refusal(cls, call: GemmW4A16Call) -> str | None:
        """Refuses many rows, large weights, and groups that end within a run."""
        if call.n * call.k > cls.MOST_CODES:
            return f"reads at most {cls.MOST_CODES} codes, not {call.n * call.k}"
        return _packed_fault(call, cls.MOST_ROWS) or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: GemmW4A16Call
    ) -> tuple[Hashable, Callable[[], GemmW4A16FewRowsKernel]]:
        """One build for each group size."""
        return call.group_size, lambda: cls(call.group_size)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Warps that share the runs of a row."""
        return {"warps": 16}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other numbers of warps."""
        return [{"warps": warps} for warps in (4, 8, 16)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import build_gemm_packed

        return build_gemm_packed(group=self.group_size, **config).compile(HOPPER)

    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply."""
        output = activation.new_empty(activation.shape[0], packed_weight.shape[0])
        runs = (
            aligned(tensor.contiguous()).view(torch.int32).view(-1, pieces)
            for tensor, pieces in ((activation, RUN // 2), (packed_weight, RUN // 8))
        )
        groups = (tensor.reshape(-1) for tensor in (weight_scale, weight_zero))
        self.program()(*runs, *groups, output)
        return output


class PackedCut(NamedTuple):
    """Rows of the weight that a block decodes, its buffers, and blocks on a multiprocessor."""

    rows: int
    stages: int
    resident: int


PACKED_CUTS = {
    8: PackedCut(128, 4, 2),
    16: PackedCut(192, 5, 1),
    32: PackedCut(192, 4, 1),
    64: PackedCut(128, 3, 1),
    128: PackedCut(128, 2, 1),
}
"""By rows of the activation that a block multiplies."""

MOST_SUMMED = 64
"""Of these; registers hold no second sum of more, so that codes are scaled in place of sums."""


class GemmW4A16SplitKernel(Kernel, GemmW4A16FwdInterface):
    """The product of rows, codes decoded into the tensor cores, the depth shared by blocks.

    Parts are kept in float32 and added by a second launch, which the first one prepares.

    Args:
        group_size: columns that share a scale and a zero point.
        columns: rows of the activation that a block multiplies, of `PACKED_CUTS`.
        sm_count: multiprocessors.
    """

    supported_archs = frozenset({HOPPER})

    MOST_ROWS = 1024
    """With more, unpacking the weight once is worth its traffic."""

    def __init__(self, group_size: int, columns: int, sm_count: int) -> None:
        super().__init__()
        self.group_size, self.columns, self.sm_count = group_size, columns, sm_count

    @classmethod
    def refusal(cls, call: GemmW4A16Call) -> str | None:
        """Refuses many rows, and groups that end within a run."""
        return _packed_fault(call, cls.MOST_ROWS) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: GemmW4A16Call) -> tuple[Hashable, Callable[[], GemmW4A16SplitKernel]]:
        """One build for each group size and class of row counts."""
        columns = min(columns for columns in PACKED_CUTS if columns >= min(call.m, 128))
        constants = call.group_size, columns, call.sm_count
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """The cut."""
        return PACKED_CUTS[self.columns]._asdict()

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other cuts whose sums registers hold, and copies the memory."""
        cuts = (
            PackedCut(64, 2, 1),
            PackedCut(64, 3, 2),
            PackedCut(128, 3, 1),
            PackedCut(192, 4, 1),
        )
        fit = {64: cuts[1:3], 128: cuts[:1]}.get(self.columns, cuts[1:])
        return [cut._asdict() for cut in fit]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import build_gemm_packed_split

        return build_gemm_packed_split(
            group=self.group_size,
            columns=self.columns,
            scaled=self.columns > MOST_SUMMED,
            **config,
        ).compile(HOPPER)

    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply."""
        (m, k), n = activation.shape, packed_weight.shape[0]
        output = activation.new_empty(m, n)
        words = aligned(packed_weight.contiguous()).view(torch.int32)
        scales = weight_scale.contiguous(), weight_zero.contiguous()
        cut = PackedCut(**self.config)
        tiles = -(-m // self.columns) * -(-n // cut.rows)
        count = packed_parts(tiles, k, self.sm_count * cut.resident)
        parts = scratch(activation.device, (count, m, n))
        self.program()(aligned(activation.contiguous()), words, *scales, *parts, output)
        return output


def packed_parts(tiles: int, k: int, slots: int) -> int:
    """How many parts to cut the depth of each tile into, so that all blocks end soonest."""
    steps = -(-k // _STEP)

    def cost(parts: int) -> int:
        return -(-tiles * parts // slots) * (-(-steps // parts) + _FIXED_STEPS)

    return min(range(1, min(_MOST_PARTS, steps) + 1), key=cost)
