"""Rows of tokens into rows of experts, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops._kernels.scratch import scratch
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel
from tileops.manifest.primitives import moe
from tileops.moe.kernels.segments import Segments, grouped, rounded_up
from tileops.moe.types.layouts import ContiguousLayoutSpec, ContiguousMetadata

MOST_COUNTED = 1024
"""Experts whose routes a block counts, a thread for each."""
MOST_ALONE = 2048
"""Routes to which one block gives slots; with more, several blocks share them."""
_SHARE, _MOST_SHARES = 1024, 32


def _tallies(ids: Tensor, shared: bool) -> list[Tensor]:
    """Memory in which each block that shares the routes counts its own."""
    if not shared:
        return []
    shares = min(-(-ids.numel() // _SHARE), _MOST_SHARES)
    return scratch(ids.device, (shares, MOST_COUNTED), dtypes=(ids.dtype,))


def _pitch_fault(hidden: int, dtype: torch.dtype) -> str | None:
    """Why rows are not copied in whole accesses, or None."""
    if hidden * dtype.itemsize % BOUNDARY:
        return f"copies rows of whole multiples of {BOUNDARY} bytes, not {hidden} elements"
    return None


@dataclass(frozen=True)
class MoEPrePermuteCall(CallSpec):
    """Token rows copied into expert rows.

    Args:
        layout: how the expert rows are organised.
        experts: number of experts.
        top_k: routes of a token.
        rows: rows to materialise; it varies between calls and serves selection only.
        hidden: columns.
        dtype: element type.
    """

    layout: ContiguousLayoutSpec
    experts: int
    top_k: int
    rows: int
    hidden: int
    dtype: torch.dtype


class MoEPrePermuteFwdInterface(KernelInterface):
    """Token rows into expert rows."""

    request = MoEPrePermuteCall

    @abstractmethod
    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Permute.

        Args:
            hidden_states: `[T, hidden]` in `call.dtype`, contiguous; read.
            local_expert_ids: `[T, top_k]` int32 of `[0, experts)`, contiguous; read. On an
                accelerator it is not read back to the host.

        Returns:
            New contiguous tensors: expert rows `[rows, hidden]` in `call.dtype`, padding rows
            unspecified; metadata int32 as `call.layout` says, `[experts]` or `[rows]`; the row of
            each route `[T * top_k]` int32. The order of an expert's rows is free.
        """


class MoEPrePermutePortableKernel(PortableKernel[MoEPrePermuteCall], MoEPrePermuteFwdInterface):
    """The permutation by a stable sort."""

    @classmethod
    def entry_for(
        cls, call: MoEPrePermuteCall
    ) -> tuple[Hashable, Callable[[], MoEPrePermutePortableKernel]]:
        """One build for each layout and number of experts."""
        return (call.layout, call.experts), lambda: cls(call)

    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Permute."""
        layout, experts = self.call.layout, self.call.experts
        rows = moe.capacity(layout, local_expert_ids.numel(), experts)
        routes = grouped(local_expert_ids.flatten(), experts, layout.alignment)
        token = routes.order // local_expert_ids.shape[1]
        expert_input = hidden_states.new_zeros(rows, hidden_states.shape[1])
        expert_input.index_copy_(0, routes.slots, hidden_states[token])
        inverse = torch.empty_like(routes.order, dtype=torch.int32)
        inverse.index_copy_(0, routes.order, routes.slots.int())
        return expert_input, self._metadata(routes.segments, rows), inverse

    def _metadata(self, parts: Segments, rows: int) -> Tensor:
        """The end of each expert, or the expert of each row with its padding."""
        layout = self.call.layout
        if layout.metadata_kind is ContiguousMetadata.PHYSICAL_PSUM:
            return parts.ends.int()
        row = torch.arange(rows, device=parts.ends.device)
        ends = parts.starts + rounded_up(parts.counts, layout.alignment)
        return torch.searchsorted(ends, row, right=True, out_int32=True)


class MoEPrePermuteCountingKernel(Kernel, MoEPrePermuteFwdInterface):
    """The permutation by counting: blocks give slots to routes, then rows are copied to them.

    Args:
        layout: how the expert rows are organised.
        experts: number of experts.
        top_k: routes of a token.
        dtype: element type.
        shared: whether several blocks share the routes.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self,
        layout: ContiguousLayoutSpec,
        experts: int,
        top_k: int,
        dtype: torch.dtype,
        shared: bool,
    ) -> None:
        super().__init__()
        self.layout, self.experts, self.top_k, self.dtype = layout, experts, top_k, dtype
        self.shared = shared
        self.by_owner = layout.metadata_kind is ContiguousMetadata.PER_ROW

    @classmethod
    def refusal(cls, call: MoEPrePermuteCall) -> str | None:
        """Refuses more experts than are counted, and rows that are not copied whole."""
        if call.experts > MOST_COUNTED:
            return f"counts the routes of at most {MOST_COUNTED} experts, not of {call.experts}"
        return _pitch_fault(call.hidden, call.dtype) or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: MoEPrePermuteCall
    ) -> tuple[Hashable, Callable[[], MoEPrePermuteCountingKernel]]:
        """One build for each layout, number of experts, routes of a token, dtype, and for many."""
        kind = call.layout, call.experts, call.top_k, call.dtype
        constants = (*kind, call.rows > MOST_ALONE)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.moe.programs import build_pre_permute

        return build_pre_permute(
            dtype_name(self.dtype),
            experts=self.experts,
            top_k=self.top_k,
            alignment=self.layout.alignment,
            by_owner=self.by_owner,
            shared=self.shared,
        ).compile(HOPPER)

    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Permute."""
        ids = local_expert_ids.flatten()
        rows = moe.capacity(self.layout, ids.numel(), self.experts)
        expert_input = hidden_states.new_empty(rows, hidden_states.shape[1])
        metadata = ids.new_empty(rows if self.by_owner else self.experts)
        places = torch.empty_like(ids)
        made = expert_input, metadata, places
        self.program()(aligned(hidden_states), aligned(ids), *made, *_tallies(ids, self.shared))
        return made


@dataclass(frozen=True)
class MoEPostPermuteCall(CallSpec):
    """Expert rows weighted and summed into token rows.

    Args:
        top_k: routes of a token.
        hidden: columns.
        scale: factor of the sums.
        dtype: element type of the expert rows.
        out_dtype: element type of the token rows.
    """

    top_k: int
    hidden: int
    scale: float
    dtype: torch.dtype
    out_dtype: torch.dtype


class MoEPostPermuteFwdInterface(KernelInterface):
    """Expert rows into token rows."""

    request = MoEPostPermuteCall

    @abstractmethod
    def forward(
        self, expert_output: Tensor, topk_weights: Tensor, inverse_indices: Tensor, out: Tensor
    ) -> None:
        """Weight and sum, in float32, `scale * Σ_k weight[t, k] * row(t, k)`, rounded once.

        All tensors are contiguous.

        Args:
            expert_output: `[R, hidden]` in `call.dtype`; read. Rows that no route names may hold
                anything.
            topk_weights: `[T, top_k]` float32; read.
            inverse_indices: `[T * top_k]` int32 of `[0, R)`, the row of each route; read.
            out: `[T, hidden]` in `call.out_dtype`; written.
        """


class MoEPostPermutePortableKernel(PortableKernel[MoEPostPermuteCall], MoEPostPermuteFwdInterface):
    """The sums by a batched product."""

    @classmethod
    def entry_for(
        cls, call: MoEPostPermuteCall
    ) -> tuple[Hashable, Callable[[], MoEPostPermutePortableKernel]]:
        """One build for each scale."""
        return call.scale, lambda: cls(call)

    def forward(
        self, expert_output: Tensor, topk_weights: Tensor, inverse_indices: Tensor, out: Tensor
    ) -> None:
        """Weight and sum."""
        rows = expert_output.index_select(0, inverse_indices).float()
        routes = rows.view(*topk_weights.shape, rows.shape[1])
        total = (routes * topk_weights[:, :, None]).sum(1)
        out.copy_(total if self.call.scale == 1.0 else total * self.call.scale)


class MoEPostPermuteRowsKernel(Kernel, MoEPostPermuteFwdInterface):
    """The sums where the rows lie, several rows of a token read together.

    Args:
        top_k: routes of a token.
        scale: factor of the sums.
        dtype: element type of the expert rows.
        out_dtype: element type of the token rows.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self, top_k: int, scale: float, dtype: torch.dtype, out_dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.top_k, self.scale, self.dtype, self.out_dtype = top_k, scale, dtype, out_dtype

    @classmethod
    def refusal(cls, call: MoEPostPermuteCall) -> str | None:
        """Refuses tokens without routes, and rows that are not read whole."""
        if call.top_k == 0:
            return "has nothing to add up without routes"
        return _pitch_fault(call.hidden, call.dtype) or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: MoEPostPermuteCall
    ) -> tuple[Hashable, Callable[[], MoEPostPermuteRowsKernel]]:
        """One build for each number of routes, scale and pair of element types."""
        constants = call.top_k, call.scale, call.dtype, call.out_dtype
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.moe.programs import build_post_permute

        dtypes = dtype_name(self.dtype), dtype_name(self.out_dtype)
        return build_post_permute(*dtypes, top_k=self.top_k, scale=self.scale).compile(HOPPER)

    def forward(
        self, expert_output: Tensor, topk_weights: Tensor, inverse_indices: Tensor, out: Tensor
    ) -> None:
        """Weight and sum."""
        total = aligned(out)
        weights = aligned(topk_weights).flatten()
        self.program()(aligned(expert_output), weights, aligned(inverse_indices), total)
        if total is not out:
            out.copy_(total)


@dataclass(frozen=True)
class MoEPermuteAlignCall(CallSpec):
    """Routes grouped by expert in blocks.

    Args:
        experts: number of experts; others share one bucket.
        block_size: routes of a block.
        routes: number of routes; it varies between calls and serves selection only.
    """

    experts: int
    block_size: int
    routes: int


class MoEPermuteAlignFwdInterface(KernelInterface):
    """Routes grouped by expert in blocks."""

    request = MoEPermuteAlignCall

    @abstractmethod
    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Group.

        Args:
            topk_ids: `[T, K]` int32, any strides; read. An id that is no expert's goes into a
                bucket of its own, which comes last as expert `experts`. On an accelerator nothing
                is read back to the host.

        Returns:
            New contiguous int32 tensors: the flat routes `[T * K + (experts + 1) * (block_size -
            1)]`, expert after expert, each group padded to whole blocks with `T * K`; the expert of
            each block; how many entries the groups take, `[1]`. What lies beyond them is
            unspecified, and the order within a group free.
        """


class MoEPermuteAlignPortableKernel(
    PortableKernel[MoEPermuteAlignCall], MoEPermuteAlignFwdInterface
):
    """The groups by a stable sort; what lies beyond them is `T * K` and 0."""

    @classmethod
    def entry_for(
        cls, call: MoEPermuteAlignCall
    ) -> tuple[Hashable, Callable[[], MoEPermuteAlignPortableKernel]]:
        """One build for each number of experts and size of blocks."""
        return (call.experts, call.block_size), lambda: cls(call)

    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Group."""
        experts, size = self.call.experts, self.call.block_size
        ids = topk_ids.flatten()
        ids = ids.masked_fill((ids < 0) | (ids >= experts), experts)
        routes = grouped(ids, experts + 1, size)
        capacity = ids.numel() + (experts + 1) * (size - 1)
        sorted_ids = torch.full((capacity,), ids.numel(), dtype=torch.int32, device=ids.device)
        sorted_ids.index_copy_(0, routes.slots, routes.order.int())
        ends = routes.segments.starts + rounded_up(routes.segments.counts, size)
        block = torch.arange(-(-capacity // size), device=ids.device) * size
        expert = torch.searchsorted(ends, block, right=True, out_int32=True)
        return sorted_ids, expert.masked_fill(block >= ends[-1], 0), ends[-1:].int()


class MoEPermuteAlignCountingKernel(Kernel, MoEPermuteAlignFwdInterface):
    """The groups by counting; what lies beyond them is left as it was.

    Args:
        experts: number of experts.
        block_size: routes of a block.
        shared: whether several blocks share the routes.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, experts: int, block_size: int, shared: bool) -> None:
        super().__init__()
        self.experts, self.block_size, self.shared = experts, block_size, shared

    @classmethod
    def refusal(cls, call: MoEPermuteAlignCall) -> str | None:
        """Refuses more experts than are counted with the bucket of all others, and no routes."""
        if call.experts >= MOST_COUNTED:
            return f"counts the routes of fewer than {MOST_COUNTED} experts, not of {call.experts}"
        if call.routes == 0:
            return "has nothing to group without routes"
        return super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: MoEPermuteAlignCall
    ) -> tuple[Hashable, Callable[[], MoEPermuteAlignCountingKernel]]:
        """One build for each number of experts and size of blocks, and for many routes."""
        constants = call.experts, call.block_size, call.routes > MOST_ALONE
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.moe.programs import build_permute_align

        return build_permute_align(
            experts=self.experts, block_size=self.block_size, shared=self.shared
        ).compile(HOPPER)

    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Group."""
        ids = topk_ids.flatten()
        capacity = ids.numel() + (self.experts + 1) * (self.block_size - 1)
        order = ids.new_empty(capacity)
        owners = ids.new_empty(-(-capacity // self.block_size))
        total = ids.new_empty(1)
        made = order, owners, total
        self.program()(aligned(ids), *made, *_tallies(ids, self.shared))
        return made
