"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Any
from typing import Literal

import torch
from torch import Tensor

from tileops.moe.ops import experts as _experts
from tileops.moe.ops import fused as _fused
from tileops.moe.ops import indexed as _indexed
from tileops.moe.ops import permute as _permute
from tileops.moe.ops import routing as _routing
from tileops.moe.types.epilogue import RoutingEpilogueSpec as RoutingEpilogueSpec
from tileops.moe.types.layouts import ContiguousLayoutSpec as ContiguousLayoutSpec
from tileops.moe.types.layouts import ContiguousMetadata as ContiguousMetadata
from tileops.moe.types.layouts import ContiguousPacking as ContiguousPacking
from tileops.moe.types.layouts import MaskedLayoutSpec as MaskedLayoutSpec
from tileops.moe.types.protocol import FusedMoEExperts as FusedMoEExperts
from tileops.moe.types.protocol import FusedMoEExpertsModular as FusedMoEExpertsModular
from tileops.moe.types.protocol import FusedMoEPrepareAndFinalize as FusedMoEPrepareAndFinalize
from tileops.moe.types.protocol import MoEPrepareAndFinalizeNoDPEP as MoEPrepareAndFinalizeNoDPEP
from tileops.moe.types.protocol import PrepareResult as PrepareResult
from tileops.moe.types.protocol import WeightedReduce as WeightedReduce
from tileops.moe.types.protocol import WeightedReduceNoOp as WeightedReduceNoOp

__all__ = [
    "FusedMoEExpertsFwdOp",
    "FusedMoEFwdOp",
    "FusedMoESharedExpertFwdOp",
    "FusedTopKFwdOp",
    "IndexedExpertMLPFwdOp",
    "MoEExpertMLPFwdOp",
    "MoEGroupedGemmFwdOp",
    "MoEPermuteAlignFwdOp",
    "MoEPostPermuteFwdOp",
    "MoEPrePermuteFwdOp",
    "SharedExpertMLPFwdOp",
]

class FusedMoEExpertsFwdOp(_fused.FusedMoEExpertsFwdOp):
    """The gated layer of each token's experts, weighted and summed into `output`.

    Rows are permuted to their experts, multiplied group by group and summed in float32, scaled and
    rounded once. A call with few routes goes route by route instead; extents and parameters decide.
    """

    def __init__(
        self,
        routed_scaling_factor: float = 1.0,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul"] = "silu_and_mul",
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            routed_scaling_factor: `float`, 1.0
            activation: `'silu_and_mul' | 'gelu_and_mul'`, 'silu_and_mul'
            target: what serves the instance; by default the device decides

        Calls take:
            output: `D[T, H]`, written, not read; contiguous
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            topk_ids: `int32[T, K]`, contiguous; in_range(0, E)
        """

    def __call__(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Call the op.

        Args:
            output: `D[T, H]`, written, not read; contiguous
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            topk_ids: `int32[T, K]`, contiguous; in_range(0, E)

        ∀ T, K, E, H, F : Dim, D ∈ {float16, bfloat16, float32}
        where T > 0 and K > 0 and H > 0 and F > 0
          and 0 < routed_scaling_factor < inf and representable(routed_scaling_factor, 'float32')
        """

class FusedMoEFwdOp(_fused.FusedMoEFwdOp):
    """A routed layer: the best experts of each token, their gated layers, the weighted sum.

    Args:
        top_k: experts of a token.
        scoring_func: how logits become scores.
        renormalize: whether a token's weights are divided by their sum.
        routed_scaling_factor: factor of the weighted sum.
        activation: function of the gates.
        prepare_finalize: quantises tokens and exchanges them between ranks; None for neither.
        experts: computes the experts in place of ours; it also decides the activation.
        target: the target that serves the op.
    """

    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul"] = "silu_and_mul",
        prepare_finalize: FusedMoEPrepareAndFinalize | None = None,
        experts: FusedMoEExpertsModular | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            top_k: `int`
            scoring_func: `'softmax' | 'sigmoid'`, 'softmax'
            renormalize: `bool`, False
            routed_scaling_factor: `float`, 1.0
            activation: `'silu_and_mul' | 'gelu_and_mul'`, 'silu_and_mul'
            prepare_finalize: what takes the place of the op's own
            experts: what takes the place of the op's own
            target: what serves the instance; by default the device decides

        Calls take:
            hidden_states: `D[T, H]`, contiguous
            gating_output: `float32[T, E]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            correction_bias: `float32[E]`, contiguous

        Calls return:
            output: `D[T, H]`
        """

    def __call__(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            hidden_states: `D[T, H]`, contiguous
            gating_output: `float32[T, E]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            correction_bias: `float32[E]`, contiguous

        Returns:
            output: `D[T, H]`

        ∀ T, E, H, F : Dim, D ∈ {float16, bfloat16, float32}
        where 0 < top_k and top_k <= E
          and not present(correction_bias) or scoring_func == 'sigmoid'
          and T > 0 and H > 0 and F > 0
          and 0 < routed_scaling_factor < inf and representable(routed_scaling_factor, 'float32')
        """

class FusedMoESharedExpertFwdOp(_fused.FusedMoESharedExpertFwdOp):
    """A routed layer beside a shared expert, which every token passes.

    With `tp_size > 1` the shared expert computes the shard of this rank, whose result is a partial
    sum: the caller reduces it over the ranks and adds the routed result. A call without shared
    weights gives None in its place. `FusedMoEFwdOp` describes the arguments both have.

    Args:
        top_k: experts of a token.
        scoring_func: how logits become scores.
        renormalize: whether a token's weights are divided by their sum.
        routed_scaling_factor: factor of the weighted sum.
        tp_size: ranks that share the shared expert.
        tp_rank: which of them this is.
        activation: function of the gates; a shared expert wants silu.
        prepare_finalize: quantises tokens and exchanges them between ranks; None for neither.
        experts: computes the experts in place of ours; it also decides the activation.
        target: the target that serves the op.
    """

    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        tp_size: int = 1,
        tp_rank: int = 0,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul"] = "silu_and_mul",
        prepare_finalize: FusedMoEPrepareAndFinalize | None = None,
        experts: FusedMoEExpertsModular | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            top_k: `int`
            scoring_func: `'softmax' | 'sigmoid'`, 'softmax'
            renormalize: `bool`, False
            routed_scaling_factor: `float`, 1.0
            tp_size: `int`, 1
            tp_rank: `int`, 0
            activation: `'silu_and_mul' | 'gelu_and_mul'`, 'silu_and_mul'
            prepare_finalize: what takes the place of the op's own
            experts: what takes the place of the op's own
            target: what serves the instance; by default the device decides

        Calls take:
            hidden_states: `D[T, H]`, contiguous
            gating_output: `float32[T, E]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            correction_bias: `float32[E]`, contiguous
            shared_w_gate_up: `D[2 * S, H]`, contiguous
            shared_w_down: `D[H, S]`, given exactly when present(shared_w_gate_up); contiguous

        Calls return:
            shared_output: `D[T, H]`, None unless present(shared_w_gate_up)
            routed_output: `D[T, H]`
        """

    def __call__(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        shared_w_gate_up: Tensor | None = None,
        shared_w_down: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """Call the op.

        Args:
            hidden_states: `D[T, H]`, contiguous
            gating_output: `float32[T, E]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            correction_bias: `float32[E]`, contiguous
            shared_w_gate_up: `D[2 * S, H]`, contiguous
            shared_w_down: `D[H, S]`, given exactly when present(shared_w_gate_up); contiguous

        Returns:
            shared_output: `D[T, H]`, None unless present(shared_w_gate_up)
            routed_output: `D[T, H]`

        ∀ T, E, H, F, S : Dim, D ∈ {float16, bfloat16, float32}
        where 0 < top_k and top_k <= E
          and not present(correction_bias) or scoring_func == 'sigmoid'
          and T > 0 and H > 0 and F > 0
          and 0 < routed_scaling_factor < inf and representable(routed_scaling_factor, 'float32')
          and 1 <= tp_size and 0 <= tp_rank and tp_rank < tp_size
          and not present(shared_w_gate_up) or activation == 'silu_and_mul' and S > 0 and S % tp_size == 0
        """

class FusedTopKFwdOp(_routing.FusedTopKFwdOp):
    """The best experts of each token and their weights.

    Scores are the softmax over all experts, or a sigmoid of each, in float32. A bias, for sigmoid
    scores only, takes part in the selection and not in the weights. `renormalize` divides the
    weights of a token by their sum. Experts come by descending selection score.
    """

    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            top_k: `int`
            scoring_func: `'softmax' | 'sigmoid'`, 'softmax'
            renormalize: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            gating_output: `G[T, E]`, contiguous
            correction_bias: `float32[E]`, contiguous

        Calls return:
            topk_weights: `float32[T, top_k]`, contiguous
            topk_ids: `int32[T, top_k]`, contiguous
        """

    def __call__(
        self, gating_output: Tensor, correction_bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            gating_output: `G[T, E]`, contiguous
            correction_bias: `float32[E]`, contiguous

        Returns:
            topk_weights: `float32[T, top_k]`, contiguous
            topk_ids: `int32[T, top_k]`, contiguous

        ∀ T, E : Dim, G ∈ {float16, bfloat16, float32}
        where 0 < top_k and top_k <= E
          and not present(correction_bias) or scoring_func == 'sigmoid'
        """

class IndexedExpertMLPFwdOp(_indexed.IndexedExpertMLPFwdOp):
    """The gated layer of each token's experts, weighted and summed into `output`, route by route.

    Gates pass through silu. What `FusedMoEExpertsFwdOp` computes, for few routes. Sums are float32
    and rounded once; the intermediate is in the inputs' dtype.
    """

    def __init__(self, routed_scaling_factor: float = 1.0, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            routed_scaling_factor: `float`, 1.0
            target: what serves the instance; by default the device decides

        Calls take:
            output: `D[T, H]`, written, not read; contiguous
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            topk_ids: `int32[T, K]`, contiguous; in_range(0, E)
        """

    def __call__(
        self,
        output: Tensor,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        """Call the op.

        Args:
            output: `D[T, H]`, written, not read; contiguous
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            topk_ids: `int32[T, K]`, contiguous; in_range(0, E)

        ∀ T, K, E, H, F : Dim, D ∈ {float16, bfloat16, float32}
        where T > 0 and K > 0 and H > 0 and F > 0
          and 0 < routed_scaling_factor < inf and representable(routed_scaling_factor, 'float32')
        """

class MoEExpertMLPFwdOp(_experts.MoEExpertMLPFwdOp):
    """The gated layer of each expert, `(act(x @ gate.T) * (x @ up.T)) @ down.T`.

    Two grouped products; the activation is float32, the intermediate in the inputs' dtype. Rows
    that belong to no expert are unspecified in the result.
    """

    def __init__(
        self,
        layout: ContiguousLayoutSpec | MaskedLayoutSpec,
        activation: Literal["silu_and_mul", "gelu_and_mul"] = "silu_and_mul",
        *,
        target: Any = None,
    ) -> None:
        """Construct the op.

        Args:
            layout: `MGroupedLayout`
            activation: `'silu_and_mul' | 'gelu_and_mul'`, 'silu_and_mul'
            target: what serves the instance; by default the device decides

        Calls take:
            expert_input: `D Rows[layout, E, P, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            layout_metadata: `int32 Meta[layout, E, P]`, contiguous; moe.layout_valid(layout, R, E)
            out: the tensor that receives the result; a new one by default

        Calls return:
            output: `D Rows[layout, E, P, H]`, into `out` when given; contiguous
        """

    def __call__(
        self,
        expert_input: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            expert_input: `D Rows[layout, E, P, H]`, contiguous
            w_gate_up: `D[E, 2 * F, H]`, contiguous
            w_down: `D[E, H, F]`, contiguous
            layout_metadata: `int32 Meta[layout, E, P]`, contiguous; moe.layout_valid(layout, R, E)
            out: the tensor that receives the result; a new one by default

        Returns:
            output: `D Rows[layout, E, P, H]`, into `out` when given; contiguous

        ∀ E, P, H, F : Dim, D ∈ {float16, bfloat16, float32}
        let R = E * layout.max_m if layout.kind == 'masked' else P
        type Rows[layout: MGroupedLayout, E: Dim, P: Dim, C: Dim] = match layout
          masked() ⇒ [E, layout.max_m, C]
          contiguous() ⇒ [P, C]
        type Meta[layout: MGroupedLayout, E: Dim, P: Dim] = match layout
          masked() ⇒ [E]
          contiguous(metadata_kind: physical_psum) ⇒ [E]
          contiguous(metadata_kind: per_row) ⇒ [P]
        where E > 0 and H > 0 and F > 0
          and layout.kind == 'masked' or layout.packing == 'tight' or P % layout.alignment == 0
        """

class MoEGroupedGemmFwdOp(_experts.MoEGroupedGemmFwdOp):
    """The product of each expert's rows with its weights, `a_e @ b_e.T`.

    With an activation the weights hold gates, then values, and the result is
    `act(y[:, :N]) * y[:, N:]`. Sums are float32 and rounded once; `gelu_and_mul` is the exact GELU.
    Rows that belong to no expert are unspecified in the result.
    """

    def __init__(
        self,
        layout: ContiguousLayoutSpec | MaskedLayoutSpec,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul"] | None = None,
        out_dtype: torch.dtype | None = None,
        target: Any = None,
    ) -> None:
        """Construct the op.

        Args:
            layout: `MGroupedLayout`
            activation: `'silu_and_mul' | 'gelu_and_mul' | None`, None
            out_dtype: `float32 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            a: `D Rows[layout, E, P, K]`, contiguous
            b: `D[E, 2 * N if present(activation) else N, K]`, contiguous
            layout_metadata: `int32 Meta[layout, E, P]`, contiguous; moe.layout_valid(layout, R, E)
            out: the tensor that receives the result; a new one by default

        Calls return:
            output: `(coalesce_dtype(out_dtype, D)) Rows[layout, E, P, N]`, into `out` when given; contiguous
        """

    def __call__(
        self, a: Tensor, b: Tensor, layout_metadata: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            a: `D Rows[layout, E, P, K]`, contiguous
            b: `D[E, 2 * N if present(activation) else N, K]`, contiguous
            layout_metadata: `int32 Meta[layout, E, P]`, contiguous; moe.layout_valid(layout, R, E)
            out: the tensor that receives the result; a new one by default

        Returns:
            output: `(coalesce_dtype(out_dtype, D)) Rows[layout, E, P, N]`, into `out` when given; contiguous

        ∀ E, P, N, K : Dim, D ∈ {float16, bfloat16, float32}
        let R = E * layout.max_m if layout.kind == 'masked' else P
        type Rows[layout: MGroupedLayout, E: Dim, P: Dim, C: Dim] = match layout
          masked() ⇒ [E, layout.max_m, C]
          contiguous() ⇒ [P, C]
        type Meta[layout: MGroupedLayout, E: Dim, P: Dim] = match layout
          masked() ⇒ [E]
          contiguous(metadata_kind: physical_psum) ⇒ [E]
          contiguous(metadata_kind: per_row) ⇒ [P]
        where E > 0 and K > 0
          and layout.kind == 'masked' or layout.packing == 'tight' or P % layout.alignment == 0
        """

class MoEPermuteAlignFwdOp(_routing.MoEPermuteAlignFwdOp):
    """Routes grouped by expert, each group padded to whole blocks with the sentinel `T * K`.

    Ids that are no expert's form a last group of expert `num_experts`. What lies beyond the groups
    is unspecified. Source: vLLM's `moe_align_block_size`.
    """

    def __init__(
        self, num_experts: int, block_size: int = 64, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            num_experts: `int`
            block_size: `int`, 64
            target: what serves the instance; by default the device decides

        Calls take:
            topk_ids: `int32[T, K]`, in_range(0, num_experts)

        Calls return:
            sorted_token_ids: `int32[P]`
            expert_ids: `int32[ceil_div(P, block_size)]`
            num_tokens_post_pad: `int32[1]`
        """

    def __call__(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            topk_ids: `int32[T, K]`, in_range(0, num_experts)

        Returns:
            sorted_token_ids: `int32[P]`
            expert_ids: `int32[ceil_div(P, block_size)]`
            num_tokens_post_pad: `int32[1]`

        ∀ T, K : Dim
        let P = T * K + (num_experts + 1) * (block_size - 1)
        where num_experts > 0 and block_size > 0
        """

class MoEPostPermuteFwdOp(_permute.MoEPostPermuteFwdOp):
    """Expert rows weighted and summed into token rows, in float32, rounded once.

    `output[t] = scale * Σ_k topk_weights[t, k] * expert_output[inverse_indices[t * K + k]]`; the
    epilogue gives the scale.
    """

    def __init__(
        self,
        layout: ContiguousLayoutSpec | MaskedLayoutSpec,
        epilogue: RoutingEpilogueSpec | None = None,
        out_dtype: torch.dtype | None = None,
        *,
        target: Any = None,
    ) -> None:
        """Construct the op.

        Args:
            layout: `MGroupedLayout`
            epilogue: `tileops.moe.RoutingEpilogueSpec | None`, None
            out_dtype: `float16 | bfloat16 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            expert_output: `D Rows[layout, E, P, H]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            inverse_indices: `int32[T * K]`, contiguous; in_range(0, R)
            out: the tensor that receives the result; a new one by default

        Calls return:
            output: `(coalesce_dtype(out_dtype, D))[T, H]`, into `out` when given; contiguous
        """

    def __call__(
        self,
        expert_output: Tensor,
        topk_weights: Tensor,
        inverse_indices: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            expert_output: `D Rows[layout, E, P, H]`, contiguous
            topk_weights: `float32[T, K]`, contiguous
            inverse_indices: `int32[T * K]`, contiguous; in_range(0, R)
            out: the tensor that receives the result; a new one by default

        Returns:
            output: `(coalesce_dtype(out_dtype, D))[T, H]`, into `out` when given; contiguous

        ∀ E, P, T, K, H : Dim, D ∈ {float16, bfloat16, float32}
        let R = E * layout.max_m if layout.kind == 'masked' else P
        type Rows[layout: MGroupedLayout, E: Dim, P: Dim, C: Dim] = match layout
          masked() ⇒ [E, layout.max_m, C]
          contiguous() ⇒ [P, C]
        where H > 0
        """

class MoEPrePermuteFwdOp(_permute.MoEPrePermuteFwdOp):
    """Each token's row copied to a row of each of its experts.

    `expert_input[inverse_indices[r]] == hidden_states[r // K]` for every route `r`. The order of an
    expert's rows is free; padding rows are unspecified.
    """

    def __init__(
        self,
        layout: ContiguousLayoutSpec | MaskedLayoutSpec,
        num_local_experts: int,
        *,
        target: Any = None,
    ) -> None:
        """Construct the op.

        Args:
            layout: `MGroupedLayout`
            num_local_experts: `int`
            target: what serves the instance; by default the device decides

        Calls take:
            hidden_states: `D[T, H]`, contiguous
            local_expert_ids: `int32[T, K]`, contiguous; in_range(0, num_local_experts)

        Calls return:
            expert_input: `D[P, H]`, contiguous
            layout_metadata: `int32 Meta[layout, num_local_experts, P]`, contiguous
            inverse_indices: `int32[T * K]`, contiguous
        """

    def __call__(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            hidden_states: `D[T, H]`, contiguous
            local_expert_ids: `int32[T, K]`, contiguous; in_range(0, num_local_experts)

        Returns:
            expert_input: `D[P, H]`, contiguous
            layout_metadata: `int32 Meta[layout, num_local_experts, P]`, contiguous
            inverse_indices: `int32[T * K]`, contiguous

        ∀ T, K, H : Dim, D ∈ {float16, bfloat16, float32}
        let P = moe.capacity(layout, T * K, num_local_experts)
        type Meta[layout: MGroupedLayout, E: Dim, P: Dim] = match layout
          contiguous(metadata_kind: physical_psum) ⇒ [E]
          contiguous(metadata_kind: per_row) ⇒ [P]
        where layout.kind == 'contiguous'
          and num_local_experts > 0 and T > 0 and K > 0
        """

class SharedExpertMLPFwdOp(_experts.SharedExpertMLPFwdOp):
    """The gated layer that every token passes, `silu_and_mul(x @ w_gate_up.T) @ w_down.T`.

    Two products with an activation between them; both intermediates are in the inputs' dtype.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[2 * S, H]`, contiguous
            w_down: `D[H, S]`, contiguous

        Calls return:
            output: `D[T, H]`
        """

    def __call__(self, hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
        """Call the op.

        Args:
            hidden_states: `D[T, H]`, contiguous
            w_gate_up: `D[2 * S, H]`, contiguous
            w_down: `D[H, S]`, contiguous

        Returns:
            output: `D[T, H]`

        ∀ T, H, S : Dim, D ∈ {float16, bfloat16, float32}
        where H > 0 and S > 0
        """
