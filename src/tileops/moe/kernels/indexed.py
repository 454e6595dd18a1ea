"""Expert layers route by route, for so few routes that permuting them costs more than it saves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.gemm.kernels.blocks import blocks_at_once
from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.moe.kernels.grouped_gemm import gated


@dataclass(frozen=True)
class IndexedExpertMLPCall(CallSpec):
    """The gated layer of each token's experts, weighted and summed.

    Args:
        experts: number of experts.
        routes: tokens times experts of a token; it varies and serves selection only.
        hidden: columns of a token's row.
        width: columns of the intermediate.
        scale: factor of the sums.
        dtype: element type.
    """

    experts: int
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
