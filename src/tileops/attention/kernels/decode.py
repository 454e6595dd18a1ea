"""Attention by one query of each request on Hopper's tensor cores, at the speed of reading keys.

Not for TileLang programs, which `programs/` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import aligned
from tileops.attention.kernels.dense import DenseAttentionCall, DenseAttentionFwdInterface
from tileops.attention.kernels.device import (
    PAGE_UNIT,
    Group,
    operand_fault,
    part_count,
    part_memory,
)
from tileops.kernels import Kernel

_ROWS = 64  # heads of a tile
_MERGERS = 256  # threads of a block that merges
_MERGED = 4  # parts that a thread reads at once

TILES: Mapping[int, tuple[int, int]] = {64: (128, 3), 128: (64, 3), 256: (64, 3)}
"""Keys of a tile and buffers of the rings, by head size: two blocks fit a multiprocessor, of the
widest heads one."""


def tile_of(group: Group, page: int) -> tuple[int, int]:
    """Keys of a tile, of which pages are divisors or multiples, and buffers of the rings."""
    columns, stages = TILES[group.head_dim]
    if page and page % columns and columns % page:
        return PAGE_UNIT, stages * columns // PAGE_UNIT
    return columns, stages


def parts_of(group: Group, requests: int, keys: int, *, resident: int = 1) -> int:
    """How many parts the keys of each request are cut into.

    Args:
        group: the heads.
        requests: how many there are.
        keys: of a request.
        resident: blocks that a multiprocessor is given; of the widest heads it takes one.
    """
    cuts = -(-group.heads // group.kv_heads // _ROWS)
    slots = group.sm_count * (resident if group.head_dim <= 128 else 1)
    return part_count(requests * group.kv_heads * cuts, -(-keys // TILES[group.head_dim][0]), slots)


class SplitPrograms(NamedTuple):
    """The programs of one query of each request: attend to parts of the keys, merge the parts."""

    attend: Callable[..., None]
    merge: Callable[..., None]

    def run(self, *operands: Tensor, out: Tensor, parts: int) -> None:
        """Launch into `out` `[T, H, D]`, with the keys of each request cut into `parts` parts."""
        memory = part_memory(out, parts)
        self.attend(*operands, *memory, out, parts)
        if parts > 1:
            self.merge(*memory, out, parts)


def merge_of(heads: int, size: int, dtype: str) -> Callable[..., None]:
    """The program that merges parts of `size` channels, by as few threads as read them at once."""
    from tileops.attention.programs.parts import build_merge

    groups = 4 * _MERGERS // size
    merge = build_merge(heads, size, dtype, groups=groups, rows=_MERGED).compile(HOPPER)

    def launch(partial: Tensor, sums: Tensor, out: Tensor, parts: int) -> None:
        spread = 1 << (-(-parts // _MERGED) - 1).bit_length()
        merge(partial, sums, out, parts, min(groups, spread))

    return launch


def compile_split(
    group: Group, *, window: int = -1, page: int = 0, rotation: Any = None
) -> SplitPrograms:
    """The programs of a group of heads over pages, or over keys in a row."""
    from tileops.attention.programs.decode import (
        Decoding,
        build_decode,
        build_decode_paged,
    )

    how = Decoding(*tile_of(group, page), window, page, rotation)
    build = build_decode_paged if page else build_decode
    merge = merge_of(group.heads, group.head_dim, group.dtype_name)
    return SplitPrograms(build(group.of_programs(), how=how).compile(HOPPER), merge)


class DenseAttentionDecodeKernel(Kernel, DenseAttentionFwdInterface):
    """Attention by one query of each request of a batch; 16-bit operands.

    Args:
        group: the heads.
        window: keys before the last that a query sees; -1 for all.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, group: Group, window: int) -> None:
        super().__init__()
        self.group, self.window = group, window

    @classmethod
    def refusal(cls, call: DenseAttentionCall) -> str | None:
        """Refuses several queries, rotation, and other elements and head sizes."""
        if not call.is_decode:
            return "attends with one query of a request, not with several"
        if call.rotary_dim:
            return f"does not rotate, here rotary_dim={call.rotary_dim}"
        return operand_fault(call, TILES) or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: DenseAttentionCall
    ) -> tuple[Hashable, Callable[[], DenseAttentionDecodeKernel]]:
        """One build for each kind of heads and window: the last query sees no later key anyway."""
        constants = (Group.of(call), call.window_left)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> SplitPrograms:
        """Compile both programs."""
        return compile_split(self.group, window=self.window)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        keys = k.shape[1]
        if keys == 0:
            return torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        rows = out[:, 0]
        seen = keys if self.window < 0 else min(keys, self.window + 1)
        count = parts_of(self.group, q.shape[0], seen)
        operands = (aligned(part.contiguous()) for part in (q[:, 0], k, v))
        self.program().run(*operands, out=rows, parts=count)
        return out
