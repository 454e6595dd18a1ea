"""What may be injected into the fused ops: moving tokens between ranks, and other experts.

A fused op routes, hands its tokens to `prepare`, lets the experts compute, and hands their result
to `finalize` with the experts' own way of reducing it. Every tensor is on the call's device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tileops._core.op import Op


@dataclass(frozen=True)
class PrepareResult:
    """The tokens that the experts of this rank compute on.

    Args:
        hidden_q: `[T', H]`, quantised where `scale` is given.
        scale: factors of `hidden_q`, None for 16-bit and 32-bit activations.
        topk_weights: `[T', K]` float32; a dispatch may have changed them.
        topk_ids: `[T', K]` int32, of this rank's experts.
    """

    hidden_q: Tensor
    scale: Tensor | None
    topk_weights: Tensor
    topk_ids: Tensor


class WeightedReduce(ABC):
    """How rows that experts computed become one row for each token."""

    @abstractmethod
    def apply(
        self, output: Tensor, expert_out: Tensor, topk_weights: Tensor, topk_ids: Tensor
    ) -> None:
        """Weight and sum `expert_out` into `output`.

        Args:
            output: `[T', H]`; written.
            expert_out: what the experts wrote, of their `output_shape`.
            topk_weights: `[T', K]` float32.
            topk_ids: `[T', K]` int32.
        """


class WeightedReduceNoOp(WeightedReduce):
    """For experts that have reduced their rows: copies unless both tensors are one."""

    def apply(
        self, output: Tensor, expert_out: Tensor, topk_weights: Tensor, topk_ids: Tensor
    ) -> None:
        """Copy where it is needed."""
        del topk_weights, topk_ids
        if expert_out is not output:
            output.copy_(expert_out)


class FusedMoEPrepareAndFinalize(ABC):
    """Quantising activations, and exchanging tokens between ranks; no product, no permutation."""

    @abstractmethod
    def prepare(
        self, hidden: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int
    ) -> PrepareResult:
        """The tokens that this rank's experts compute on; `H` stays.

        Args:
            hidden: `[T, H]`.
            topk_weights: `[T, K]` float32.
            topk_ids: `[T, K]` int32, of all experts.
            num_experts: experts of all ranks together.
        """

    @abstractmethod
    def finalize(
        self,
        output: Tensor,
        expert_out: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        weight_and_reduce: WeightedReduce,
    ) -> None:
        """Fill `output` from what the experts wrote, across ranks where tokens were exchanged.

        Args:
            output: `[T, H]`; written. It may be `expert_out` itself.
            expert_out: of the experts' `output_shape`.
            topk_weights: `[T', K]`, as prepared.
            topk_ids: `[T', K]`, as prepared.
            weight_and_reduce: the experts' reduction, which this calls.
        """


class MoEPrepareAndFinalizeNoDPEP(FusedMoEPrepareAndFinalize):
    """A single rank: tokens are taken and given as they are."""

    def prepare(
        self, hidden: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int
    ) -> PrepareResult:
        """The arguments, unchanged."""
        del num_experts
        return PrepareResult(hidden, None, topk_weights, topk_ids)

    def finalize(
        self,
        output: Tensor,
        expert_out: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        weight_and_reduce: WeightedReduce,
    ) -> None:
        """The experts' reduction."""
        weight_and_reduce.apply(output, expert_out, topk_weights, topk_ids)


class FusedMoEExperts(Op):
    """The whole computation of a rank's experts, written in place.

    Called as `experts(output, hidden_states, w_gate_up, w_down, topk_weights, topk_ids)`; experts
    that take scaled input get the scale as a further argument `scale`. No routing, no
    communication, no quantisation. A concrete class has a spec, its own or an inherited one.
    """

    activation: Literal["silu_and_mul", "gelu_and_mul"]
    takes_scaled_input: ClassVar[bool] = False
    """Whether `scale` is understood; other experts refuse quantised tokens."""

    @abstractmethod
    def output_shape(self, tokens: int, hidden: int) -> tuple[int, int]:
        """The shape of `output`: `(T', H)` of rows that are reduced, `(T' * K, H)` of others.

        Args:
            tokens: `T'`.
            hidden: `H`.
        """


class FusedMoEExpertsModular(FusedMoEExperts):
    """Experts whose reduction is an object of its own, so that `finalize` can apply it."""

    @abstractmethod
    def make_weighted_reduce(self) -> WeightedReduce:
        """The reduction that makes token rows of what the experts wrote."""
