"""Products of matrices whose rows lie in groups, each with a factor of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.gemm.kernels.blocks import Blocks, blocks_at_once, cut
from tileops.kernels import CallSpec, KernelInterface, PortableKernel


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
