"""Expert layers route by route, for so few routes that permuting them costs more than it saves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
from tileops.gemm.kernels.blocks import blocks_at_once
from tileops.gemm.kernels.grouped import GROUP_TILES, compile_grouped, operand_fault
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel
from tileops.moe.kernels.grouped_gemm import gated
from tileops.moe.kernels.permute import MOST_COUNTED


@dataclass(frozen=True)
class IndexedExpertMLPCall(CallSpec):
    """The gated layer of each token's experts, weighted and summed.

    Args:
        experts: number of experts.
        top_k: experts of a token.
        routes: tokens times those; it varies and serves selection only.
        hidden: columns of a token's row.
        width: columns of the intermediate.
        scale: factor of the sums.
        dtype: element type.
    """

    experts: int
    top_k: int
    routes: int
    hidden: int
    width: int
    scale: float
    dtype: torch.dtype


class IndexedExpertMLPFwdInterface(KernelInterface):
    """The routed experts, without permutation."""

    request = IndexedExpertMLPCall

    @abstractmethod
    def forward(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Compute `scale * Σ_k weight[t, k] * mlp_{id[t, k]}(x[t])` with float32 sums.

        All tensors are contiguous and on `call.device`; `output` may be `hidden_states`.

        Args:
            output: `[T, hidden]` in `call.dtype`; written.
            hidden_states: `[T, hidden]` in `call.dtype`; read.
            w_gate_up: `[E, 2 * width, hidden]` in `call.dtype`, gates first; read.
            w_down: `[E, hidden, width]` in `call.dtype`; read.
            topk_weights: `[T, K]` float32; read.
            topk_ids: `[T, K]` int32 of `[0, E)`; read. On an accelerator it is not read back to
                the host.
        """


class IndexedExpertMLPPortableKernel(
    PortableKernel[IndexedExpertMLPCall], IndexedExpertMLPFwdInterface
):
    """The layers by torch: a route at a time on the CPU, elsewhere with copies of the weights."""

    @classmethod
    def entry_for(
        cls, call: IndexedExpertMLPCall
    ) -> tuple[Hashable, Callable[[], IndexedExpertMLPPortableKernel]]:
        """One build for each scale."""
        return call.scale, lambda: cls(call)

    def forward(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Compute each route, then the weighted sums."""
        tokens, top_k = topk_ids.shape
        rows = hidden_states.repeat_interleave(top_k, 0, output_size=tokens * top_k)
        run = self._by_route if rows.device.type == "cpu" else self._with_copies
        routed = run(rows, w_gate_up, w_down, topk_ids.flatten())
        total = (routed.view(tokens, top_k, -1).float() * topk_weights[:, :, None]).sum(1)
        output.copy_(total * self.call.scale)

    def _by_route(self, rows: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor) -> Tensor:
        """Each route with the weights where they lie."""
        routed = torch.empty_like(rows)
        for row, (route, expert) in zip(rows, enumerate(ids.tolist()), strict=True):
            hidden = gated(w_gate_up[expert] @ row, "silu_and_mul").to(row.dtype)
            routed[route] = w_down[expert] @ hidden
        return routed

    def _with_copies(self, rows: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor) -> Tensor:
        """As many routes at once as copies of their weights are allowed."""
        routed = torch.empty_like(rows)
        step = blocks_at_once(w_gate_up)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            y = torch.bmm(w_gate_up.index_select(0, ids[part]), rows[part, :, None])[..., 0]
            hidden = gated(y, "silu_and_mul").to(rows.dtype)
            routed[part] = torch.bmm(w_down.index_select(0, ids[part]), hidden[..., None])[..., 0]
        return routed


class IndexedExpertMLPGroupedKernel(Kernel, IndexedExpertMLPFwdInterface):
    """The layers in low tiles, so that weights of experts that tokens share are read once.

    Args:
        experts: number of experts.
        top_k: experts of a token.
        scale: factor of the sums.
        dtype: element type.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self, experts: int, top_k: int, scale: float, dtype: torch.dtype, blocks: int
    ) -> None:
        super().__init__()
        self.experts, self.top_k, self.scale = experts, top_k, scale
        self.dtype, self.blocks = dtype, blocks

    @classmethod
    def refusal(cls, call: IndexedExpertMLPCall) -> str | None:
        """Refuses other element types, pitches not to be copied, and experts not to be counted."""
        if call.experts > MOST_COUNTED:
            return f"counts the routes of at most {MOST_COUNTED} experts, not of {call.experts}"
        fault = operand_fault(call.dtype, hidden=call.hidden, width=call.width)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: IndexedExpertMLPCall
    ) -> tuple[Hashable, Callable[[], IndexedExpertMLPGroupedKernel]]:
        """One build for each number of experts and of routes, scale and element type."""
        constants = call.experts, call.top_k, call.scale, call.dtype, call.sm_count
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Buffers of the rings of both products."""
        return {"stages": GROUP_TILES[0].stages}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the ways to the experts and back, and the products between them."""
        from tileops.moe.programs import build_post_permute, build_pre_permute

        name = dtype_name(self.dtype)
        there = build_pre_permute(
            name, experts=self.experts, top_k=self.top_k, alignment=1, by_owner=False, shared=False
        ).compile(HOPPER)
        back = build_post_permute(name, name, top_k=self.top_k, scale=self.scale).compile(HOPPER)
        product = partial(compile_grouped, self.dtype, GROUP_TILES[0], self.blocks, config, "ends")
        gate_up, down = product(activation="silu_and_mul"), product()

        def run(
            x: Tensor, ids: Tensor, up: Tensor, lower: Tensor, weights: Tensor, y: Tensor
        ) -> None:
            routes = len(ids)
            rows, hidden, ends, places = scratch(
                x.device,
                (routes, x.shape[1]),
                (routes, lower.shape[-1]),
                (self.experts,),
                (routes,),
                dtypes=(x.dtype, x.dtype, ids.dtype, ids.dtype),
            )
            there(x, ids, rows, ends, places)
            gate_up(rows, up.flatten(0, 1), ends, hidden)
            down(hidden, lower.flatten(0, 1), ends, rows)
            back(rows, weights, places, y)

        return run

    def forward(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Permute, multiply twice, and sum."""
        total = aligned(output)
        ids, weights = aligned(topk_ids).flatten(), aligned(topk_weights).flatten()
        layers = aligned(w_gate_up), aligned(w_down)
        self.program()(aligned(hidden_states), ids, *layers, weights, total)
        if total is not output:
            output.copy_(total)
