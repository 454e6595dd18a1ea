"""Products of matrices whose rows lie in groups, each with a factor of its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops.gemm.kernels.blocks import Blocks, blocks_at_once, cut
from tileops.gemm.kernels.dense import Tile
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class GroupedGemmCall(CallSpec):
    """A product for each group of rows.

    Args:
        groups: number of groups.
        rows: rows of all groups together; it varies between calls and serves selection only.
        n: columns of `a` or of the result, as `transpose_a` says.
        k: columns of the other factor.
        transpose_a: whether the product runs over a group's rows.
        transpose_b: whether `b` is stored transposed.
        dtype: element type.
    """

    groups: int
    rows: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool
    dtype: torch.dtype


class GroupedGemmFwdInterface(KernelInterface):
    """The products of all groups."""

    request = GroupedGemmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor, batch_sizes: Tensor, batch_offsets: Tensor) -> Tensor:
        """Multiply.

        With `r` the rows of group `g`: `out[r] = a[r] @ B[g]`, or `out[g] = a[r].T @ B[r]` when
        `call.transpose_a`, zeros for a group without rows; `B` is `b`, each factor transposed when
        `call.transpose_b`. All tensors are on `call.device`, of any strides, and only read.

        Args:
            a: `[rows, k]`, or `[rows, n]` when `call.transpose_a`, in `call.dtype`.
            b: `[groups, k, n]`, or `[groups, n, k]` when `call.transpose_b`; when
                `call.transpose_a` `[rows, k]` or `[k, rows]`; in `call.dtype`.
            batch_sizes: `[groups]` int32, the rows of each group. On an accelerator neither these
                nor the offsets are read back to the host.
            batch_offsets: `[groups]` int32, the first row of each group; groups follow each other
                without gaps.

        Returns:
            A new contiguous `[rows, n]`, or `[groups, n, k]` when `call.transpose_a`, in
            `call.dtype`, accumulated in float32 and rounded once.
        """


class GroupedGemmPortableKernel(PortableKernel[GroupedGemmCall], GroupedGemmFwdInterface):
    """The products by torch: a group at a time on the CPU, in blocks of rows elsewhere."""

    @classmethod
    def entry_for(
        cls, call: GroupedGemmCall
    ) -> tuple[Hashable, Callable[[], GroupedGemmPortableKernel]]:
        """One build for each pair of layouts."""
        return (call.transpose_a, call.transpose_b), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor, batch_sizes: Tensor, batch_offsets: Tensor) -> Tensor:
        """Multiply."""
        right = b.mT if self.call.transpose_b else b
        shape = (batch_sizes.numel(), a.shape[1], right.shape[1])
        out = a.new_empty(shape if self.call.transpose_a else (a.shape[0], right.shape[2]))
        if a.device.type == "cpu":
            self._by_group(a, right, batch_sizes.tolist(), out)
            return out
        starts = batch_offsets.long()
        blocks = cut(starts, starts + batch_sizes, a.shape[0])
        return (self._weights_by_block if self.call.transpose_a else self._rows_by_block)(
            a, right, blocks, out
        )

    def _by_group(self, a: Tensor, right: Tensor, sizes: list[int], out: Tensor) -> None:
        """One product for each group."""
        other = right.split(sizes) if self.call.transpose_a else right
        targets = out if self.call.transpose_a else out.split(sizes)
        for rows, factor, target in zip(a.split(sizes), other, targets, strict=True):
            left = rows.mT if self.call.transpose_a else rows
            target.copy_(left @ factor)

    def _rows_by_block(self, a: Tensor, right: Tensor, blocks: Blocks, out: Tensor) -> Tensor:
        """Each block of rows with a copy of its group's factor."""
        step = blocks_at_once(right)
        parts = [
            torch.bmm(a[row], right.index_select(0, group))
            for group, row in zip(blocks.group.split(step), blocks.row.split(step), strict=True)
        ]
        products = torch.cat(parts).flatten(0, 1)
        return torch.index_select(products, 0, blocks.place, out=out)

    def _weights_by_block(self, a: Tensor, right: Tensor, blocks: Blocks, out: Tensor) -> Tensor:
        """The products of blocks of rows, added up by group in float32."""
        total = torch.zeros(out.shape, dtype=torch.float32, device=out.device)
        step = blocks_at_once(total)
        for group, row, holds in zip(*(p.split(step) for p in blocks[:3]), strict=True):
            left = a[row].float().masked_fill(~holds[:, :, None], 0)
            other = right[row].float().masked_fill(~holds[:, :, None], 0)
            total.index_add_(0, group, torch.bmm(left.mT, other))
        return out.copy_(total)


GROUP_TILES = tuple(
    Tile(256, columns, 64, stages)
    for columns, stages in ((32, 5), (48, 5), (64, 5), (96, 4), (128, 4), (144, 4))
)
"""Tiles whose rows are those of a group's factor, and whose columns are rows of the group."""

_FACTOR_COLUMNS = 48  # of a tile, that cost as much as reading its part of the factor
_FACTOR_BOUND = 64  # rows of a group that are multiplied while its factor is read
_SPREAD = 1.4  # roots of the mean by which one group in twelve is longer, where chance decides


def group_tile(rows: int, groups: int, *, by_chance: bool) -> Tile:
    """The tile for `groups` groups of `rows` rows together.

    Args:
        rows: rows of all groups.
        groups: number of groups.
        by_chance: whether room is left for groups that have more rows than the mean.
    """
    mean = rows / groups
    most = mean + (_SPREAD * math.sqrt(mean) if by_chance else 0)
    return min(
        reversed(GROUP_TILES),
        key=lambda tile: math.ceil(most / tile.columns) * (tile.columns + _FACTOR_COLUMNS),
    )


def operand_fault(dtype: torch.dtype, **pitches: int) -> str | None:
    """Why grouped products of this dtype and of rows of these lengths are not served, or None."""
    if dtype not in (torch.float16, torch.bfloat16):
        return f"multiplies float16 and bfloat16, not {dtype_name(dtype)}"
    unit = BOUNDARY // dtype.itemsize
    for name, extent in pitches.items():
        if extent % unit:
            return (
                f"copies rows whose pitch is a multiple of {BOUNDARY} bytes; "
                f"{name}={extent} is no multiple of {unit}"
            )
    return None


MOST_OWNERS = 2048
"""Groups at most, where each row tells its group; a few KiB beside the buffers of the ring."""


def compile_grouped(
    dtype: torch.dtype,
    tile: Tile,
    blocks: int,
    config: Mapping[str, Any],
    places: Literal["starts", "ends", "owners", "counts"],
    alignment: int = 1,
    *,
    out_dtype: torch.dtype | None = None,
    activation: str | None = None,
) -> Callable[..., None]:
    """The compiled program of grouped products.

    Args:
        dtype: element type.
        tile: how each product is cut up.
        blocks: largest number of blocks.
        config: how many buffers the ring has.
        places: what says which rows each group has.
        alignment: divides the first row of each group, where `places` is `"ends"`; the distance of
            those rows, where it is `"counts"`.
        out_dtype: element type of the result, where it is another.
        activation: function of the gates, where each factor begins with gates.
    """
    from tileops.gemm.programs import Groups, Tiling, build_gemm_grouped

    program = build_gemm_grouped(
        dtype_name(dtype),
        tiling=Tiling(tile.rows, tile.columns, tile.depth, stack=2, **config),
        groups=Groups(places, alignment, MOST_OWNERS),
        blocks=blocks,
        out_dtype=None if out_dtype is None else dtype_name(out_dtype),
        activation=activation,
    )
    return program.compile(HOPPER)


class GroupedGemmPipelinedKernel(Kernel, GroupedGemmFwdInterface):
    """The products of rows with their groups' factors on Hopper's tensor cores; 16-bit operands.

    Offsets are read on the device only; sizes follow from them.

    Args:
        dtype: element type.
        tile: how each product is cut up, chosen from the mean rows of a group.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, dtype: torch.dtype, tile: Tile, blocks: int) -> None:
        super().__init__()
        self.dtype, self.tile, self.blocks = dtype, tile, blocks

    @classmethod
    def refusal(cls, call: GroupedGemmCall) -> str | None:
        """Refuses other layouts and element types, and pitches the copy engine cannot take."""
        if call.transpose_a or not call.transpose_b:
            return "reads both factors along k: a [rows, k] and b [groups, n, k]"
        fault = operand_fault(call.dtype, k=call.k, n=call.n)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: GroupedGemmCall
    ) -> tuple[Hashable, Callable[[], GroupedGemmPipelinedKernel]]:
        """One build for each tile, which the mean rows of a group decide."""
        # Room for more rows costs nothing where factors take longer to read than to multiply.
        room = call.rows <= _FACTOR_BOUND * call.groups
        tile = group_tile(call.rows, call.groups, by_chance=room)
        constants = (call.dtype, tile, call.sm_count)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Buffers of the ring."""
        return {"stages": self.tile.stages}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Shorter rings."""
        return [{"stages": stages} for stages in range(3, self.tile.stages + 1)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        return compile_grouped(self.dtype, self.tile, self.blocks, config, "starts")

    def forward(self, a: Tensor, b: Tensor, batch_sizes: Tensor, batch_offsets: Tensor) -> Tensor:
        """Multiply."""
        factors = aligned(b.contiguous()).flatten(0, 1)
        d = torch.empty(a.shape[0], b.shape[1], dtype=self.dtype, device=a.device)
        self.program()(aligned(a.contiguous()), factors, aligned(batch_offsets.contiguous()), d)
        return d
