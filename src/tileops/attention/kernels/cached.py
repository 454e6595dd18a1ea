"""Attention over pages that take the new keys and values of a call, on Hopper's tensor cores.

Not for TileLang programs, which `programs/` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops.attention.kernels.decode import compile_split, parts_of
from tileops.attention.kernels.device import Group, operand_fault, page_fault
from tileops.attention.kernels.paged import PagedPrefillCall, PagedPrefillFwdInterface
from tileops.attention.kernels.prefill import ROWS, WIDEST
from tileops.kernels import Kernel

Self = TypeVar("Self", bound="PagedKernel")


class Pages(NamedTuple):
    """How rows lie in pages, and how keys are rotated before they are stored.

    Attributes:
        size: rows of a page.
        rotary_dim: leading channels that are rotated; 0 for none.
        rope_base: base of the rotary frequencies.
        max_position: positions that differ; later ones turn like the last.
    """

    size: int
    rotary_dim: int = 0
    rope_base: float = 0.0
    max_position: int = 0

    @classmethod
    def of(cls, call: PagedPrefillCall) -> Pages:
        """The pages of a call; without a rotation its settings play no part in the identity."""
        if not call.rotary_dim:
            return cls(call.page_size)
        return cls(call.page_size, call.rotary_dim, call.rope_base, call.max_position)

    def rotation(self) -> Any:
        """The rotation as programs take it, or None."""
        from tileops.attention.programs.rotation import Rotation

        return Rotation(self.rotary_dim, self.max_position - 1) if self.rotary_dim else None

    def turns(self) -> list[int]:
        """How far each pair of channels turns per position, as programs take it."""
        from tileops.attention.programs.rotation import turns

        return turns(self.rotary_dim, self.rope_base) if self.rotary_dim else [0]


_UNIT = 8  # elements of 16 bytes


def _rows(x: Tensor) -> Tensor:
    """`x` `[T, H, D]`, copied unless its rows are whole and 16-byte aligned."""
    heads, size = x.shape[1:]
    whole = x.stride(2) == 1 and (heads == 1 or x.stride(1) == size)
    return x if whole and x.stride(0) % _UNIT == 0 else x.contiguous()


def _line(x: Tensor) -> tuple[Tensor, int]:
    """The memory from the first to the last element of `x`, and how far its rows are apart."""
    x = aligned(_rows(x))
    length = (x.shape[0] - 1) * x.stride(0) + x.shape[1] * x.shape[2]
    return x.as_strided((length,), (1,)), x.stride(0) // _UNIT


def _padded(x: Tensor) -> Tensor:
    """`x` `[T, H, D]` as a view with all the heads that lie between its rows, else a copy.

    Queries that come in one matrix with keys and values are so read in place.
    """
    x = _rows(x)
    count, _, size = x.shape
    held = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if x.stride(0) % size or x.data_ptr() % BOUNDARY or count * x.stride(0) > held:
        return aligned(x.contiguous())
    return x.as_strided((count, x.stride(0) // size, size), (x.stride(0), size, 1))


class _Programs(NamedTuple):
    """The two programs that a call launches in turn, and the constants of the rotation."""

    append: Callable[..., None]
    attend: Any
    turns: Tensor


class PagedKernel(Kernel, PagedPrefillFwdInterface):
    """New tokens into their pages, then attention over them; 16-bit operands.

    Args:
        group: the heads.
        pages: how rows lie in pages.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, group: Group, pages: Pages) -> None:
        super().__init__()
        self.group, self.pages = group, pages

    @classmethod
    def refusal(cls, call: PagedPrefillCall) -> str | None:
        """Refuses coded pages, odd pages, and other elements and head sizes."""
        fault = page_fault(call) or operand_fault(call, ROWS)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(cls: type[Self], call: PagedPrefillCall) -> tuple[Hashable, Callable[[], Self]]:
        """One build for each kind of heads, page and rotation."""
        constants = (Group.of(call), Pages.of(call))
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> _Programs:
        """Compile the programs."""
        from tileops.attention.programs.append import build_append

        group = self.group
        append = build_append(
            group.kv_heads,
            group.head_dim,
            group.dtype_name,
            page=self.pages.size,
            rotation=self.pages.rotation(),
        )
        turns = torch.tensor(self.pages.turns(), device=self._built_on)
        return _Programs(append.compile(HOPPER), self._compiled(), turns)

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
        metadata = [
            aligned(part.contiguous()) for part in (cu_seqlens_q, cache_seqlens, block_table)
        ]
        pages = aligned(k_pages), aligned(v_pages)
        metadata.append(programs.turns)
        (keys, k_pitch), (values, v_pitch) = _line(k_new), _line(v_new)
        longest = self._longest(q.shape[0])
        programs.append(keys, values, *pages, *metadata, longest, k_pitch, v_pitch)
        for copy, original in zip(pages, (k_pages, v_pages), strict=True):
            if copy is not original:
                original.copy_(copy)
        self._attend(programs.attend, (_padded(q), *pages, *metadata), block_table, out)
        return out

    @abstractmethod
    def _compiled(self) -> Any:
        """The programs that attend."""

    @abstractmethod
    def _longest(self, tokens: int) -> int:
        """An upper bound of one request's new tokens, given those of all."""

    @abstractmethod
    def _attend(
        self, programs: Any, operands: tuple[Tensor, ...], table: Tensor, out: Tensor
    ) -> None:
        """Launch the programs that attend, into `out`."""


class PagedDecodeKernel(PagedKernel):
    """One new token of each request."""

    @classmethod
    def refusal(cls, call: PagedPrefillCall) -> str | None:
        """Refuses longer requests, then what its base refuses."""
        if call.max_seqlen_q > 1:
            return f"takes one token of a request, not up to {call.max_seqlen_q}"
        return super().refusal(call)

    def _compiled(self) -> Any:
        return compile_split(self.group, page=self.pages.size, rotation=self.pages.rotation())

    def _longest(self, tokens: int) -> int:
        return 1

    def _attend(
        self, programs: Any, operands: tuple[Tensor, ...], table: Tensor, out: Tensor
    ) -> None:
        keys = table.shape[1] * self.pages.size
        parts = parts_of(self.group, table.shape[0], keys, resident=2)
        programs.run(*operands, out=out, parts=parts)


class PagedPrefillPipelinedKernel(PagedKernel):
    """Many new tokens of each request.

    Args:
        group: the heads.
        pages: how rows lie in pages.
        is_causal: whether a query sees no later key.
        longest: most new tokens of a request.
    """

    def __init__(self, group: Group, pages: Pages, is_causal: bool, longest: int) -> None:
        super().__init__(group, pages)
        self.is_causal, self.longest = is_causal, longest

    @classmethod
    def refusal(cls, call: PagedPrefillCall) -> str | None:
        """Refuses single tokens, then what its base refuses."""
        if call.max_seqlen_q == 1:
            return "takes many tokens of a request, not one"
        return super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: PagedPrefillCall
    ) -> tuple[Hashable, Callable[[], PagedPrefillPipelinedKernel]]:
        """One build for each kind of heads, page, rotation, mask and longest request."""
        group = Group.of(call)._replace(sm_count=0)
        constants = (group, Pages.of(call), call.is_causal, call.max_seqlen_q)
        return constants, lambda: cls(*constants)

    def _compiled(self) -> Any:
        from tileops.attention.programs.packed import build_attention_paged
        from tileops.attention.programs.prefill import Mask, Source, Tiling

        width, size = self.group.head_dim, self.pages.size
        columns = 64 if width == WIDEST or (size % 128 and 128 % size) else 128
        program = build_attention_paged(
            self.group.of_programs(),
            mask=Mask(right=0 if self.is_causal else -1),
            tiling=Tiling(ROWS[width], columns, queries=1, reuses=width == WIDEST),
            source=Source(is_packed=True, page=size, rotation=self.pages.rotation()),
        )
        return program.compile(HOPPER)

    def _longest(self, tokens: int) -> int:
        return min(self.longest, tokens)

    def _attend(
        self, programs: Any, operands: tuple[Tensor, ...], table: Tensor, out: Tensor
    ) -> None:
        programs(*operands, out)
