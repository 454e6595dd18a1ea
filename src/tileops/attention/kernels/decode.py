"""Attention by one query of each request on Hopper's tensor cores, at the speed of reading keys.

Not for TileLang programs, which `programs/` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileops._core.dispatch.alignment import aligned
from tileops.attention.kernels.dense import DenseAttentionCall, DenseAttentionFwdInterface
from tileops.attention.kernels.device import HOPPER, operand_fault, part_count, part_memory
from tileops.attention.kernels.paged import PagedPrefillCall, PagedPrefillFwdInterface
from tileops.kernels import Kernel

_COLUMNS = 64  # keys of a tile
_ROWS = 64  # heads of a tile
_MERGED = 16  # parts that a thread reads at once

STAGES: Mapping[int, int] = {64: 6, 128: 3, 256: 3}
"""Buffers of the rings, by head size: two blocks fit a multiprocessor, of the widest heads one."""


class Group(NamedTuple):
    """The heads of a kernel, and the bounds of their scores.

    Attributes:
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        sm_scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
        dtype: element type.
        sm_count: multiprocessors.
    """

    heads: int
    kv_heads: int
    head_dim: int
    sm_scale: float
    softcap: float
    dtype: torch.dtype
    sm_count: int

    @classmethod
    def of(cls, call: DenseAttentionCall | PagedPrefillCall) -> Group:
        """The heads of a call."""
        return cls(
            call.heads, call.kv_heads, call.head_dim, call.sm_scale, call.softcap, call.dtype,
            call.sm_count,
        )  # fmt: skip

    def parts(self, requests: int, keys: int) -> int:
        """Into how many parts the keys of each request are cut."""
        cuts = -(-self.heads // self.kv_heads // _ROWS)
        slots = self.sm_count * (2 if self.head_dim <= 128 else 1)
        return part_count(requests * self.kv_heads * cuts, -(-keys // _COLUMNS), slots)

    @property
    def dtype_name(self) -> str:
        """The element type as programs name it."""
        return str(self.dtype).removeprefix("torch.")


class _Programs(NamedTuple):
    """What one call launches: attention to parts of the keys, then their merging."""

    attend: Callable[..., None]
    merge: Callable[..., None]

    def run(self, *operands: Tensor, out: Tensor, parts: int) -> None:
        """Launch into `out` `[T, H, D]`, by so many parts of the keys of each request."""
        memory = part_memory(out, parts)
        self.attend(*operands, *memory, out, parts)
        if parts > 1:
            self.merge(*memory, out, parts)


def _compiled(group: Group, *, window: int = -1, page: int = 0, rotation: Any = None) -> _Programs:
    """The programs of a group of heads over pages, or over keys in a row."""
    from tileops.attention.programs.decode import (
        Decoding,
        build_decode,
        build_decode_paged,
        build_merge,
    )
    from tileops.attention.programs.softmax import Heads

    heads = Heads(
        group.heads, group.kv_heads, group.head_dim, group.dtype_name, group.sm_scale, group.softcap
    )
    how = Decoding(_COLUMNS, STAGES[group.head_dim], window, page, rotation)
    build = build_decode_paged if page else build_decode
    merge = build_merge(group.heads, group.head_dim, group.dtype_name, rows=_MERGED)
    return _Programs(build(heads, how=how).compile(HOPPER), merge.compile(HOPPER))


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
        fault = operand_fault(call.dtype, call.head_dim, STAGES, call.sm_scale)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: DenseAttentionCall
    ) -> tuple[Hashable, Callable[[], DenseAttentionDecodeKernel]]:
        """One build for each kind of heads and window: the last query sees no later key anyway."""
        constants = (Group.of(call), call.window_left)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> _Programs:
        """Compile both programs."""
        return _compiled(self.group, window=self.window)

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
        count = self.group.parts(q.shape[0], seen)
        operands = (aligned(part.contiguous()) for part in (q[:, 0], k, v))
        self.program().run(*operands, out=rows, parts=count)
        return out


class _PagedPrograms(NamedTuple):
    """What one call over pages launches first and then, and the constants of the rotation."""

    append: Callable[..., None]
    decode: _Programs
    turns: Tensor


class PagedDecodeKernel(Kernel, PagedPrefillFwdInterface):
    """One new token of each request into its pages, then attention over them; 16-bit operands.

    Args:
        group: the heads.
        page_size: rows of a page.
        rotary_dim: leading channels that are rotated; 0 for none.
        rope_base: base of the rotary frequencies.
        max_position: positions that are told apart.
    """

    supported_archs = frozenset({HOPPER})

    SMALLEST_PAGE = 8

    def __init__(
        self, group: Group, page_size: int, rotary_dim: int, rope_base: float, max_position: int
    ) -> None:
        super().__init__()
        self.group, self.page_size = group, page_size
        self.rotary_dim, self.rope_base, self.max_position = rotary_dim, rope_base, max_position

    @classmethod
    def refusal(cls, call: PagedPrefillCall) -> str | None:
        """Refuses longer requests, coded pages, odd pages, and other elements and head sizes."""
        if call.max_seqlen_q > 1:
            return f"takes one token of a request, not up to {call.max_seqlen_q}"
        if call.cache_dtype != call.dtype:
            return "reads pages of the queries' dtype only"
        size = call.page_size
        if size % _COLUMNS and (_COLUMNS % size or size < cls.SMALLEST_PAGE):
            return f"reads pages of 8, 16, 32 or a multiple of {_COLUMNS} rows, not {size}"
        fault = operand_fault(call.dtype, call.head_dim, STAGES, call.sm_scale)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(cls, call: PagedPrefillCall) -> tuple[Hashable, Callable[[], PagedDecodeKernel]]:
        """One build for each kind of heads, page and rotation."""
        rotation = (call.rotary_dim, call.rope_base, call.max_position) if call.rotary_dim else None
        constants = (Group.of(call), call.page_size, *(rotation or (0, 0.0, 0)))
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> _PagedPrograms:
        """Compile the programs."""
        from tileops.attention.programs.append import build_append
        from tileops.attention.programs.rotation import Rotation, turns

        group, rotation, units = self.group, None, [0]
        if self.rotary_dim:
            rotation = Rotation(self.rotary_dim, self.max_position - 1)
            units = turns(self.rotary_dim, self.rope_base)
        append = build_append(
            group.kv_heads, group.head_dim, group.dtype_name, page=self.page_size, rotation=rotation
        )
        return _PagedPrograms(
            append.compile(HOPPER),
            _compiled(group, page=self.page_size, rotation=rotation),
            torch.tensor(units, device=self._built_on),
        )

    def forward(
        self,
        q: Tensor,
        k_new: Tensor,
        v_new: Tensor,
        k_pages: Tensor,
        v_pages: Tensor,
        k_scale: Tensor,
        v_scale: Tensor,
        cu_seqlens_q: Tensor,
        cache_seqlens: Tensor,
        block_table: Tensor,
    ) -> Tensor:
        """Append and attend."""
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        if q.shape[0] == 0:
            return out
        programs = self.program()
        q, k_new, v_new, *metadata = (
            aligned(part.contiguous())
            for part in (q, k_new, v_new, cu_seqlens_q, cache_seqlens, block_table)
        )
        pages = aligned(k_pages), aligned(v_pages)
        metadata.append(programs.turns)
        programs.append(k_new, v_new, *pages, *metadata, 1)
        for copy, original in zip(pages, (k_pages, v_pages), strict=True):
            if copy is not original:
                original.copy_(copy)
        parts = self.group.parts(block_table.shape[0], block_table.shape[1] * self.page_size)
        programs.decode.run(q, *pages, *metadata, out=out, parts=parts)
        return out
