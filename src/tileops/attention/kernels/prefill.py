"""Attention by many queries of each request on Hopper's tensor cores.

Not for attention over pages, which `cached` holds, nor for TileLang programs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import aligned
from tileops.attention.kernels.dense import DenseAttentionCall, DenseAttentionFwdInterface
from tileops.attention.kernels.device import Group, operand_fault
from tileops.attention.kernels.varlen import VarlenAttentionCall, VarlenAttentionFwdInterface
from tileops.kernels import Kernel

ROWS: Mapping[int, int] = {64: 192, 128: 128, 256: 128}
"""Queries of a tile, by head size."""
WIDEST = 256
"""Heads so wide leave no room for results beside the queries, in whose place they are stored."""


class Window(NamedTuple):
    """Which keys a query sees around its own position.

    Attributes:
        left: keys before it; -1 for all.
        right: keys after it; -1 for all, 0 for a causal mask.
    """

    left: int
    right: int

    @classmethod
    def of(cls, call: DenseAttentionCall | VarlenAttentionCall) -> Window:
        """What a call lets its queries see."""
        return cls(call.window_left, 0 if call.is_causal else call.window_right)


def widest_columns(group: Group) -> int:
    """Keys of a tile of the widest heads: bounding scores takes registers."""
    return 64 if group.softcap else 80


def rotation_fault(call: DenseAttentionCall | VarlenAttentionCall) -> str | None:
    """Why the kernels of this module do not serve a rotation, or None without one."""
    return f"does not rotate, here rotary_dim={call.rotary_dim}" if call.rotary_dim else None


class DenseAttentionPipelinedKernel(Kernel, DenseAttentionFwdInterface):
    """Attention of a batch by many queries, fed by the copy engine; 16-bit operands.

    Args:
        group: the heads.
        window: what a query sees.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, group: Group, window: Window) -> None:
        super().__init__()
        self.group, self.window = group, window

    @classmethod
    def refusal(cls, call: DenseAttentionCall) -> str | None:
        """Refuses single queries, rotation, and other elements and head sizes."""
        if call.is_decode:
            return "attends with many queries of a request, not with one"
        fault = rotation_fault(call) or operand_fault(call, ROWS)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: DenseAttentionCall
    ) -> tuple[Hashable, Callable[[], DenseAttentionPipelinedKernel]]:
        """One build for each kind of heads and window; neither batch nor length is part of it."""
        constants = (Group.of(call), Window.of(call))
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Keys of a tile, buffers of query tiles, and whether tiles are joined."""
        return self.autotune_configs[0]

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """The widest heads leave room for narrow tiles only; what may see nothing is not joined."""
        if self.group.head_dim == WIDEST:
            return [{"columns": widest_columns(self.group), "queries": 1, "joins": False}]
        plain = {"columns": 128, "queries": 2}
        if self.window.right > 0:
            return [{**plain, "joins": False}]
        joins = self.group.head_dim == 64 or self.window.right < 0
        return [{**plain, "joins": joins}, {**plain, "joins": not joins}]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.attention.programs.dense import build_attention_pipelined
        from tileops.attention.programs.prefill import Mask, Tiling

        size = self.group.head_dim
        tiling = Tiling(ROWS[size], **config, reuses=size == WIDEST)
        program = build_attention_pipelined(
            self.group.of_programs(),
            mask=Mask(*self.window),
            tiling=tiling,
            blocks=self.group.sm_count,
        )
        return program.compile(HOPPER)

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
        if k.shape[1] == 0:
            return torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        self.program()(*(aligned(part.contiguous()) for part in (q, k, v)), out)
        return out


class VarlenAttentionPipelinedKernel(Kernel, VarlenAttentionFwdInterface):
    """Attention of packed requests, fed by the copy engine; 16-bit operands.

    Args:
        group: the heads.
        window: what a query sees.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, group: Group, window: Window) -> None:
        super().__init__()
        self.group, self.window = group, window

    @classmethod
    def refusal(cls, call: VarlenAttentionCall) -> str | None:
        """Refuses rotation, and other elements and head sizes."""
        fault = rotation_fault(call) or operand_fault(call, ROWS)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: VarlenAttentionCall
    ) -> tuple[Hashable, Callable[[], VarlenAttentionPipelinedKernel]]:
        """One build for each kind of heads and window; no length is part of it."""
        constants = (Group.of(call)._replace(sm_count=0), Window.of(call))
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.attention.programs.packed import build_attention_packed
        from tileops.attention.programs.prefill import Mask, Tiling

        size = self.group.head_dim
        columns = widest_columns(self.group) if size == WIDEST else 128
        tiling = Tiling(ROWS[size], columns, queries=1, reuses=size == WIDEST)
        program = build_attention_packed(
            self.group.of_programs(), mask=Mask(*self.window), tiling=tiling
        )
        return program.compile(HOPPER)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        if q.shape[0] == 0 or k.shape[0] == 0:
            return torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        operands = (q, k, v, cu_seqlens_q, cu_seqlens_kv)
        self.program()(*(aligned(part.contiguous()) for part in operands), out)
        return out
