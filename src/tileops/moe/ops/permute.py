"""Rows of tokens into rows of experts, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.manifest.primitives import moe
from tileops.moe.kernels.permute import (
    MoEPostPermuteCall,
    MoEPostPermuteFwdInterface,
    MoEPostPermutePortableKernel,
    MoEPostPermuteRowsKernel,
    MoEPrePermuteCall,
    MoEPrePermuteCountingKernel,
    MoEPrePermuteFwdInterface,
    MoEPrePermutePortableKernel,
)

if TYPE_CHECKING:
    from tileops.moe.types import ContiguousLayoutSpec, RoutingEpilogueSpec
    from tileops.moe.types.layouts import Layout

__all__ = ["MoEPrePermuteFwdOp", "MoEPostPermuteFwdOp"]


class MoEPrePermuteFwdOp(Op):
    """Each token's row copied to a row of each of its experts.

    `expert_input[inverse_indices[r]] == hidden_states[r // K]` for every route `r`. The order of an
    expert's rows is free; padding rows are unspecified.
    """

    kernel_types = {
        "counting": MoEPrePermuteCountingKernel,
        "portable": MoEPrePermutePortableKernel,
    }
    interfaces = {"pre_permute": MoEPrePermuteFwdInterface}

    def __init__(
        self, layout: ContiguousLayoutSpec, num_local_experts: int, *, target: str | None = None
    ) -> None:
        self.layout = layout
        self.num_local_experts = num_local_experts
        super().__init__(target=target)

    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Permute."""
        routes = local_expert_ids.numel()
        call = MoEPrePermuteCall(
            layout=self.layout,
            experts=self.num_local_experts,
            top_k=local_expert_ids.shape[1],
            rows=moe.capacity(self.layout, routes, self.num_local_experts),
            hidden=hidden_states.shape[1],
            dtype=hidden_states.dtype,
            device=hidden_states.device,
        )
        return self.kernel_for("pre_permute", call)(hidden_states, local_expert_ids)

    def eval_roofline_read_bytes(self) -> int:
        """The bytes of the inputs, all of which are read."""
        record = self.last_call
        return record.bytes("hidden_states") + record.bytes("local_expert_ids")


class MoEPostPermuteFwdOp(Op):
    """Expert rows weighted and summed into token rows, in float32, rounded once.

    `output[t] = scale * Σ_k topk_weights[t, k] * expert_output[inverse_indices[t * K + k]]`; the
    epilogue gives the scale.
    """

    kernel_types = {
        "rows": MoEPostPermuteRowsKernel,
        "portable": MoEPostPermutePortableKernel,
    }
    interfaces = {"post_permute": MoEPostPermuteFwdInterface}

    def __init__(
        self,
        layout: Layout,
        epilogue: RoutingEpilogueSpec | None = None,
        out_dtype: torch.dtype | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.layout = layout
        self.epilogue = epilogue
        self.out_dtype = out_dtype
        super().__init__(target=target)

    def forward(
        self,
        expert_output: Tensor,
        topk_weights: Tensor,
        inverse_indices: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Weight and sum."""
        tokens, top_k = topk_weights.shape
        hidden = expert_output.shape[-1]
        if out is None:
            dtype = self.out_dtype or expert_output.dtype
            out = expert_output.new_empty(tokens, hidden, dtype=dtype)
        call = MoEPostPermuteCall(
            top_k=top_k,
            hidden=hidden,
            scale=1.0 if self.epilogue is None else self.epilogue.routed_scaling_factor,
            dtype=expert_output.dtype,
            out_dtype=out.dtype,
            device=expert_output.device,
        )
        kernel = self.kernel_for("post_permute", call)
        kernel(expert_output.flatten(0, -2), topk_weights, inverse_indices, out)
        return out
