"""Whole routed layers: experts of tokens whose routes are known, and layers that route."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.moe.kernels.grouped_gemm import Activation
from tileops.moe.kernels.top_k import Scoring
from tileops.moe.ops import injected
from tileops.moe.ops.experts import MoEExpertMLPFwdOp, SharedExpertMLPFwdOp
from tileops.moe.ops.indexed import IndexedExpertMLPFwdOp
from tileops.moe.ops.permute import MoEPostPermuteFwdOp, MoEPrePermuteFwdOp
from tileops.moe.ops.routing import FusedTopKFwdOp
from tileops.moe.types import (
    ContiguousLayoutSpec,
    FusedMoEExpertsModular,
    FusedMoEPrepareAndFinalize,
    MoEPrepareAndFinalizeNoDPEP,
    RoutingEpilogueSpec,
    WeightedReduceNoOp,
)

__all__ = ["FusedMoEExpertsFwdOp", "FusedMoEFwdOp", "FusedMoESharedExpertFwdOp"]

_LAYOUT = ContiguousLayoutSpec.tight_physical_psum()

Value = TypeVar("Value")


class FusedMoEExpertsFwdOp(FusedMoEExpertsModular):
    """The gated layer of each token's experts, weighted and summed into `output`.

    Rows are permuted to their experts, multiplied group by group and summed in float32, scaled and
    rounded once. A call with few routes goes route by route instead; extents and parameters decide.
    """

    delegate_types = {
        "pre_permute": MoEPrePermuteFwdOp,
        "expert_mlp": MoEExpertMLPFwdOp,
        "post_permute": MoEPostPermuteFwdOp,
        "indexed_small_route": IndexedExpertMLPFwdOp,
    }

    def __init__(
        self,
        routed_scaling_factor: float = 1.0,
        *,
        activation: Activation = "silu_and_mul",
        target: str | None = None,
    ) -> None:
        self.routed_scaling_factor = routed_scaling_factor
        self.activation = activation
        super().__init__(target=target)
        epilogue = RoutingEpilogueSpec(routed_scaling_factor)
        self.delegate_for("expert_mlp", None, layout=_LAYOUT, activation=activation)
        self.delegate_for("post_permute", None, layout=_LAYOUT, epilogue=epilogue)
        if activation == "silu_and_mul":
            factor = routed_scaling_factor
            self.delegate_for("indexed_small_route", None, routed_scaling_factor=factor)

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
        if self._goes_by_route(w_down, topk_ids):
            by_route = self.delegate_for("indexed_small_route", None)
            by_route(output, hidden_states, w_gate_up, w_down, topk_weights, topk_ids)
            return
        experts = w_down.shape[0]
        permute = self.delegate_for(
            "pre_permute", experts, layout=_LAYOUT, num_local_experts=experts
        )
        rows, metadata, inverse_indices = permute(hidden_states, topk_ids)
        rows = self.delegate_for("expert_mlp", None)(rows, w_gate_up, w_down, metadata)
        reduce = self.delegate_for("post_permute", None)
        reduce(rows, topk_weights, inverse_indices, out=output)

    def _goes_by_route(self, w_down: Tensor, topk_ids: Tensor) -> bool:
        """Whether the layer is of a form that such kernels take, and its routes are few.

        The number of routes is asked last: a compiler guards what was asked.
        """
        experts, hidden, width = w_down.shape
        fits = self.activation == "silu_and_mul" and not (hidden % 128 or width % 256)
        return fits and topk_ids.numel() <= 2 * experts

    def output_shape(self, tokens: int, hidden: int) -> tuple[int, int]:
        """One row for each token: the rows are reduced already."""
        return tokens, hidden

    def make_weighted_reduce(self) -> WeightedReduceNoOp:
        """Nothing is left to reduce."""
        return WeightedReduceNoOp()

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["D"])


class _RoutedLayer(Op):
    """A layer that routes its tokens; the experts and the exchange of tokens may be injected."""

    injected_parameters = ("prepare_finalize", "experts")

    top_k: int
    scoring_func: Scoring
    renormalize: bool
    routed_scaling_factor: float
    activation: Activation
    _exchange: FusedMoEPrepareAndFinalize

    @property
    def prepare_finalize(self) -> FusedMoEPrepareAndFinalize:
        """What exchanges the tokens; settled by construction."""
        return self._exchange

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer."""

    def _assign(
        self,
        routing: tuple[int, Scoring, bool, float],
        activation: Activation,
        prepare_finalize: FusedMoEPrepareAndFinalize | None,
        experts: FusedMoEExpertsModular | None,
    ) -> None:
        """Settle the parameters that both layers have; injected experts decide for themselves.

        Raises:
            TypeError: an injected object is of the wrong class.
            ValueError: an argument contradicts the injected experts.
        """
        name = type(self).__name__
        _check_class(name, "experts", experts, FusedMoEExpertsModular)
        _check_class(name, "prepare_finalize", prepare_finalize, FusedMoEPrepareAndFinalize)
        self.top_k, self.scoring_func, self.renormalize, factor = routing
        self.routed_scaling_factor = _settled(name, "routed_scaling_factor", factor, 1.0, experts)
        self.activation = _settled(name, "activation", activation, "silu_and_mul", experts)
        own = MoEPrepareAndFinalizeNoDPEP() if prepare_finalize is None else prepare_finalize
        self._exchange = own

    def _hold_stages(self, experts: FusedMoEExpertsModular | None, *, exchanges: bool) -> None:
        """Hold the stages; injected objects exclude a target that knows nothing of them."""
        routing = {name: getattr(self, name) for name in ("top_k", "scoring_func", "renormalize")}
        self.delegate_for("route_select", None, **routing)
        params = {
            "routed_scaling_factor": self.routed_scaling_factor,
            "activation": self.activation,
        }
        self.delegate_for("routed_experts", None, experts, **params)
        self.composition_only = self.composition_only or exchanges

    def _routed(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None,
    ) -> Tensor:
        """Route the tokens, let the experts compute, and bring their rows home."""
        route_select = self.delegate_for("route_select", None)
        experts: Any = self.delegate_for("routed_experts", None)
        weights, ids = route_select(gating_output, correction_bias)
        layer, exchange = type(self).__name__, self._exchange
        count = gating_output.shape[1]
        prepared = injected.prepare(layer, exchange, hidden_states, weights, ids, count)
        if prepared.scale is not None and not experts.takes_scaled_input:
            raise ValueError(
                f"{layer}: {type(exchange).__name__} quantised the tokens, but "
                f"{type(experts).__name__} does not take scaled input"
            )
        reduce = injected.reduction(layer, experts)
        output = torch.empty_like(hidden_states)
        tokens, top_k = prepared.topk_ids.shape
        shape = injected.rows(layer, experts, tokens, top_k, hidden_states.shape[1])
        is_reduced = isinstance(reduce, WeightedReduceNoOp) and tuple(output.shape) == shape
        expert_out = output if is_reduced else output.new_empty(shape)
        routes = prepared.topk_weights, prepared.topk_ids
        scale = {} if prepared.scale is None else {"scale": prepared.scale}
        experts(expert_out, prepared.hidden_q, w_gate_up, w_down, *routes, **scale)
        injected.finalize(layer, exchange, output, expert_out, *routes, reduce)
        return output

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["D"])


class FusedMoEFwdOp(_RoutedLayer):
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

    delegate_types = {"route_select": FusedTopKFwdOp, "routed_experts": FusedMoEExpertsFwdOp}

    def __init__(
        self,
        top_k: int,
        scoring_func: Scoring = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        *,
        activation: Activation = "silu_and_mul",
        prepare_finalize: FusedMoEPrepareAndFinalize | None = None,
        experts: FusedMoEExpertsModular | None = None,
        target: str | None = None,
    ) -> None:
        routing = (top_k, scoring_func, renormalize, routed_scaling_factor)
        self._assign(routing, activation, prepare_finalize, experts)
        super().__init__(target=target)
        self._hold_stages(experts, exchanges=prepare_finalize is not None)

    def forward(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
    ) -> Tensor:
        """Run the layer."""
        return self._routed(hidden_states, gating_output, w_gate_up, w_down, correction_bias)


class FusedMoESharedExpertFwdOp(_RoutedLayer):
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

    delegate_types = {
        "route_select": FusedTopKFwdOp,
        "routed_experts": FusedMoEExpertsFwdOp,
        "shared_expert": SharedExpertMLPFwdOp,
    }

    def __init__(
        self,
        top_k: int,
        scoring_func: Scoring = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        tp_size: int = 1,
        tp_rank: int = 0,
        *,
        activation: Activation = "silu_and_mul",
        prepare_finalize: FusedMoEPrepareAndFinalize | None = None,
        experts: FusedMoEExpertsModular | None = None,
        target: str | None = None,
    ) -> None:
        routing = (top_k, scoring_func, renormalize, routed_scaling_factor)
        self._assign(routing, activation, prepare_finalize, experts)
        self.tp_size = tp_size
        self.tp_rank = tp_rank
        super().__init__(target=target)
        self._hold_stages(experts, exchanges=prepare_finalize is not None)
        if self.activation == "silu_and_mul":
            self.delegate_for("shared_expert", None)

    def forward(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        shared_w_gate_up: Tensor | None = None,
        shared_w_down: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """Run both parts of the layer."""
        shared = None
        if shared_w_gate_up is not None and shared_w_down is not None:
            weights = self._shard(shared_w_gate_up, shared_w_down)
            shared = self.delegate_for("shared_expert", None)(hidden_states, *weights)
        routed = self._routed(hidden_states, gating_output, w_gate_up, w_down, correction_bias)
        return shared, routed

    def _shard(self, w_gate_up: Tensor, w_down: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's gates, values and columns."""
        if self.tp_size == 1:
            return w_gate_up, w_down
        width = w_down.shape[1] // self.tp_size
        own = slice(self.tp_rank * width, (self.tp_rank + 1) * width)
        gate, up = w_gate_up.chunk(2)
        return torch.cat((gate[own], up[own])), w_down[:, own].contiguous()


def _check_class(op: str, name: str, given: object, wanted: type) -> None:
    """An injected object is of the class that the op can use."""
    if not (given is None or isinstance(given, wanted)):
        raise TypeError(f"{op}: {name} must be a {wanted.__name__}, got a {type(given).__name__}")


def _settled(op: str, name: str, asked: Value, default: Value, experts: object) -> Value:
    """A parameter as injected experts have it, where they have it."""
    held: Value | None = getattr(experts, name, None)
    if held is None or not isinstance(asked, str | int | float):  # the signature refuses others
        return asked
    if asked not in (default, held):
        raise ValueError(
            f"{op}: {name}={asked!r} contradicts the injected {type(experts).__name__}, whose "
            f"{name} is {held!r}"
        )
    return held
