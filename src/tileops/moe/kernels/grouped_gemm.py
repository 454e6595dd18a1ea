"""Products of rows that are grouped by expert with the weights of their experts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._kernels.alignment import aligned
from tileops.gemm.kernels.blocks import blocks_at_once, cut
from tileops.gemm.kernels.dense import Tile
from tileops.gemm.kernels.grouped import (
    MOST_OWNERS,
    compile_grouped,
    group_tile,
    operand_fault,
)
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel
from tileops.moe.kernels.segments import Segments, segments
from tileops.moe.types.layouts import (
    ContiguousMetadata,
    Layout,
    MaskedLayoutSpec,
)

Activation = Literal["silu_and_mul", "gelu_and_mul"]


@dataclass(frozen=True)
class MoEGroupedGemmCall(CallSpec):
    """`output_e = a_e @ b_e.T` for each expert `e`, gated where `activation` is given.

    Args:
        layout: how the rows are organised.
        experts: number of experts.
        rows: rows of `a`; it varies between calls and serves selection only.
        n: columns of the result.
        k: terms of each sum.
        activation: the gate's function; `b` then has `2 n` rows for each expert, gates first.
        dtype: element type of `a` and `b`.
        out_dtype: element type of the result.
    """

    layout: Layout
    experts: int
    rows: int
    n: int
    k: int
    activation: Activation | None
    dtype: torch.dtype
    out_dtype: torch.dtype


class MoEGroupedGemmFwdInterface(KernelInterface):
    """The products of all experts."""

    request = MoEGroupedGemmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor, layout_metadata: Tensor, out: Tensor) -> None:
        """Multiply.

        All tensors are contiguous and on `call.device`. Sums are float32 and rounded once; with an
        activation the result is `act(y[:, :n]) * y[:, n:]` in float32 of `y = a_e @ b_e.T`.

        Args:
            a: `[P, k]`, or `[E, max_m, k]` when the layout is masked, in `call.dtype`; read.
            b: `[E, n, k]`, or `[E, 2 n, k]` with an activation, in `call.dtype`; read.
            layout_metadata: `[E]` or `[P]` int32, as `call.layout` says; read. On an accelerator
                it is not read back to the host.
            out: `[P, n]` or `[E, max_m, n]` in `call.out_dtype`; written. Rows of no expert may be
                left as they are, or hold anything.
        """


class MoEGroupedGemmPortableKernel(PortableKernel[MoEGroupedGemmCall], MoEGroupedGemmFwdInterface):
    """The products by torch: an expert at a time on the CPU, in blocks of rows elsewhere."""

    @classmethod
    def entry_for(
        cls, call: MoEGroupedGemmCall
    ) -> tuple[Hashable, Callable[[], MoEGroupedGemmPortableKernel]]:
        """One build for each layout, activation and pair of element types."""
        identity = (call.layout, call.activation, call.dtype, call.out_dtype)
        return identity, lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor, layout_metadata: Tensor, out: Tensor) -> None:
        """Multiply."""
        layout = self.call.layout
        if isinstance(layout, MaskedLayoutSpec):
            out.copy_(self._project(a, b))
            return
        multiply = self._by_expert if a.device.type == "cpu" else self._by_block
        multiply(a, b, segments(layout, layout_metadata, b.shape[0]), out)

    def _by_expert(self, a: Tensor, b: Tensor, parts: Segments, out: Tensor) -> None:
        """One product for each expert that has rows."""
        spans = zip(parts.starts.tolist(), parts.ends.tolist(), strict=True)
        for expert, (start, end) in enumerate(spans):
            if start < end:
                out[start:end] = self._project(a[start:end], b[expert])

    def _by_block(self, a: Tensor, b: Tensor, parts: Segments, out: Tensor) -> None:
        """Each block of rows with a copy of its expert's weights."""
        blocks = cut(parts.starts, parts.ends, a.shape[0])
        step = blocks_at_once(b)
        products = [
            self._project(a[row], b.index_select(0, expert))
            for expert, row in zip(blocks.group.split(step), blocks.row.split(step), strict=True)
        ]
        torch.index_select(torch.cat(products).flatten(0, 1), 0, blocks.place, out=out)

    def _project(self, x: Tensor, weight: Tensor) -> Tensor:
        """`x @ weight.T` in the result's dtype, gated where there is an activation."""
        if self.call.out_dtype != x.dtype:
            x, weight = x.float(), weight.float()
        return gated(x @ weight.mT, self.call.activation).to(self.call.out_dtype)


class MoEGroupedGemmPipelinedKernel(Kernel, MoEGroupedGemmFwdInterface):
    """The products on Hopper's tensor cores, gates included; 16-bit operands.

    Args:
        layout: how the rows are organised.
        activation: function of the gates, if any.
        dtype: element type of the operands.
        out_dtype: element type of the result.
        tile: how each product is cut up, chosen from the mean rows of an expert.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({90})

    def __init__(
        self,
        layout: Layout,
        activation: Activation | None,
        dtype: torch.dtype,
        out_dtype: torch.dtype,
        tile: Tile,
        blocks: int,
    ) -> None:
        super().__init__()
        self.layout, self.activation = layout, activation
        self.dtype, self.out_dtype = dtype, out_dtype
        self.tile, self.blocks = tile, blocks

    @classmethod
    def refusal(cls, call: MoEGroupedGemmCall) -> str | None:
        """Refuses other element types, pitches not to be copied, and too many experts of rows."""
        if call.rows == 0:
            return "has nothing to multiply without rows"
        if _places(call.layout) == "owners" and call.experts > MOST_OWNERS:
            return f"finds the rows of at most {MOST_OWNERS} experts, not of {call.experts}"
        fault = operand_fault(call.dtype, k=call.k, n=call.n)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: MoEGroupedGemmCall
    ) -> tuple[Hashable, Callable[[], MoEGroupedGemmPipelinedKernel]]:
        """One build for each layout, activation, pair of element types and class of groups."""
        is_masked = isinstance(call.layout, MaskedLayoutSpec)  # rows are then those of all slabs
        tile = group_tile(call.rows, call.experts, by_chance=not is_masked)
        kind = call.layout, call.activation, call.dtype, call.out_dtype
        constants = (*kind, tile, call.sm_count)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Buffers of the ring, which a wider result leaves less memory for."""
        return {"stages": self.tile.stages - (self.out_dtype != self.dtype)}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        layout = self.layout
        return compile_grouped(
            self.dtype,
            self.tile,
            self.blocks,
            config,
            _places(layout),
            layout.max_m if isinstance(layout, MaskedLayoutSpec) else layout.alignment,
            out_dtype=self.out_dtype,
            activation=self.activation,
        )

    def forward(self, a: Tensor, b: Tensor, layout_metadata: Tensor, out: Tensor) -> None:
        """Multiply."""
        product = aligned(out)
        rows, factors = aligned(a).flatten(0, -2), aligned(b).flatten(0, 1)
        self.program()(rows, factors, aligned(layout_metadata), product.flatten(0, -2))
        if product is not out:
            out.copy_(product)


def _places(layout: Layout) -> Literal["ends", "owners", "counts"]:
    """What the metadata of a layout says of each expert's rows."""
    if isinstance(layout, MaskedLayoutSpec):
        return "counts"
    by_owner = layout.metadata_kind is ContiguousMetadata.PER_ROW
    return "owners" if by_owner else "ends"


def gated(y: Tensor, activation: Activation | None) -> Tensor:
    """`act(gate) * up` in float32, the gates in the left half of each row; `y` without activation.

    Args:
        y: `[…, 2 n]`, or `[…, n]` without activation.
        activation: function of the gates.
    """
    if activation is None:
        return y
    gate, up = y.float().chunk(2, -1)
    return (F.silu(gate) if activation == "silu_and_mul" else F.gelu(gate)) * up
