"""Routed experts without permutation."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.moe.kernels.indexed import (
    IndexedExpertMLPCall,
    IndexedExpertMLPFwdInterface,
    IndexedExpertMLPGroupedKernel,
    IndexedExpertMLPPortableKernel,
)

__all__ = ["IndexedExpertMLPFwdOp"]


class IndexedExpertMLPFwdOp(Op):
    """The gated layer of each token's experts, weighted and summed into `output`, route by route.

    Gates pass through silu. What `FusedMoEExpertsFwdOp` computes, for few routes. Sums are float32
    and rounded once; the intermediate is in the inputs' dtype.
    """

    kernel_types = {
        "grouped": IndexedExpertMLPGroupedKernel,
        "portable": IndexedExpertMLPPortableKernel,
    }
    interfaces = {"indexed_expert_mlp": IndexedExpertMLPFwdInterface}

    def __init__(self, routed_scaling_factor: float = 1.0, *, target: str | None = None) -> None:
        self.routed_scaling_factor = routed_scaling_factor
        super().__init__(target=target)

    def forward(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Compute the routed experts into `output`."""
        experts, hidden, width = w_down.shape
        call = IndexedExpertMLPCall(
            experts=experts,
            top_k=topk_ids.shape[1],
            routes=topk_ids.numel(),
            hidden=hidden,
            width=width,
            scale=float(self.routed_scaling_factor),
            dtype=hidden_states.dtype,
            device=hidden_states.device,
        )
        kernel = self.kernel_for("indexed_expert_mlp", call)
        kernel(output, hidden_states, w_gate_up, w_down, topk_weights, topk_ids)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["D"])
