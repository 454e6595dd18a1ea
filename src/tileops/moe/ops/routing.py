"""Choosing the experts of each token."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops.moe.kernels.permute import (
    MoEPermuteAlignCall,
    MoEPermuteAlignCountingKernel,
    MoEPermuteAlignFwdInterface,
    MoEPermuteAlignPortableKernel,
)
from tileops.moe.kernels.top_k import (
    FusedTopKCall,
    FusedTopKFwdInterface,
    FusedTopKPortableKernel,
    FusedTopKWarpKernel,
    Scoring,
)

__all__ = ["FusedTopKFwdOp", "MoEPermuteAlignFwdOp"]


class FusedTopKFwdOp(Op):
    """The best experts of each token and their weights.

    Scores are the softmax over all experts, or a sigmoid of each, in float32. A bias, for sigmoid
    scores only, takes part in the selection and not in the weights. `renormalize` divides the
    weights of a token by their sum. Experts come by descending selection score.
    """

    kernel_types = {"warp": FusedTopKWarpKernel, "portable": FusedTopKPortableKernel}
    interfaces = {"top_k": FusedTopKFwdInterface}

    def __init__(
        self,
        top_k: int,
        scoring_func: Scoring = "softmax",
        renormalize: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.top_k = top_k
        self.scoring_func = scoring_func
        self.renormalize = renormalize
        super().__init__(target=target)

    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Select."""
        call = FusedTopKCall(
            experts=gating_output.shape[1],
            top_k=self.top_k,
            scoring_func=self.scoring_func,
            renormalize=self.renormalize,
            has_bias=correction_bias is not None,
            dtype=gating_output.dtype,
            device=gating_output.device,
        )
        return self.kernel_for("top_k", call)(gating_output, correction_bias)


class MoEPermuteAlignFwdOp(Op):
    """Routes grouped by expert, each group padded to whole blocks with the sentinel `T * K`.

    Ids that are no expert's form a last group of expert `num_experts`. What lies beyond the groups
    is unspecified. Source: vLLM's `moe_align_block_size`.
    """

    kernel_types = {
        "counting": MoEPermuteAlignCountingKernel,
        "portable": MoEPermuteAlignPortableKernel,
    }
    interfaces = {"permute_align": MoEPermuteAlignFwdInterface}

    def __init__(
        self, num_experts: int, block_size: int = 64, *, target: str | None = None
    ) -> None:
        self.num_experts = num_experts
        self.block_size = block_size
        super().__init__(target=target)

    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Group the routes."""
        facts = (self.num_experts, self.block_size, topk_ids.numel())
        call = MoEPermuteAlignCall(*facts, device=topk_ids.device)
        return self.kernel_for("permute_align", call)(topk_ids)
