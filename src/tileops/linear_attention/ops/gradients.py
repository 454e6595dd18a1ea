"""Gradients of recurrences over a matrix state, whose states are formed again."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tileops.linear_attention.kernels import (
    StateRecurrenceBwdInterface,
    StateRecurrenceBwdPortableKernel,
)
from tileops.linear_attention.ops.recurrence import (
    DeltaRuleOp,
    GatedDeltaRuleOp,
    GatedLinearOp,
    KimiDeltaRuleOp,
    RecurrenceOp,
)

__all__ = [
    "GatedDeltaNetBwdOp",
    "KimiDeltaAttentionBwdOp",
    "DeltaNetInferenceBwdOp",
    "GLAInferenceBwdOp",
]


class _BackwardOp(RecurrenceOp):
    """Gradients of a recurrence over a matrix state."""

    kernel_types = {"portable": StateRecurrenceBwdPortableKernel}
    interfaces = {"state_recurrence_bwd": StateRecurrenceBwdInterface}

    def _gradients(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor | None,
        beta: Tensor | None,
        initial_state: Tensor | None,
        cu_seqlens: Tensor | None,
        cu_seqlens_cpu: Tensor | None,
        gate: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Any, ...]:
        """The gradients of q, k, v, g, beta, the initial state and the parts of a raw gate."""
        call = self._call(q, v, initial_state, cu_seqlens, gate[1])
        kernel = self.kernel_for("state_recurrence_bwd", call)
        tensors = (q, k, v, g, beta, initial_state, cu_seqlens, cu_seqlens_cpu, *gate)
        found: tuple[Any, ...] = kernel(do, dfinal_state, *tensors)
        return found


class _GatedBackwardOp(_BackwardOp):
    """Gradients of a gated delta rule."""

    def forward(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
        A_log: Tensor | None = None,  # noqa: N803
        dt_bias: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients."""
        tensors = (q, k, v, g, beta, initial_state, cu_seqlens, cu_seqlens_cpu)
        return self._gradients(do, dfinal_state, *tensors, (A_log, dt_bias))


class GatedDeltaNetBwdOp(GatedDeltaRuleOp, _GatedBackwardOp):
    """Gradients of `GatedDeltaNetFwdOp`: of its tensors in the order of its inputs.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """


class KimiDeltaAttentionBwdOp(KimiDeltaRuleOp, _GatedBackwardOp):
    """Gradients of `KimiDeltaAttentionFwdOp`: of its tensors in the order of its inputs.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """


class DeltaNetInferenceBwdOp(DeltaRuleOp, _BackwardOp):
    """Gradients of `DeltaNetInferenceFwdOp`: returns `(dq, dk, dv, dbeta, dinitial_state)`.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def forward(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients."""
        tensors = (q, k, v, None, beta, initial_state, cu_seqlens, cu_seqlens_cpu)
        dq, dk, dv, _, dbeta, dinitial_state, *_ = self._gradients(do, dfinal_state, *tensors)
        return dq, dk, dv, dbeta, dinitial_state


class GLAInferenceBwdOp(GatedLinearOp, _BackwardOp):
    """Gradients of `GLAInferenceFwdOp`: returns `(dq, dk, dg, dv, dinitial_state)`.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def forward(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        g: Tensor,
        v: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients."""
        tensors = (q, k, v, g, None, initial_state, cu_seqlens, cu_seqlens_cpu)
        dq, dk, dv, dg, _, dinitial_state, *_ = self._gradients(do, dfinal_state, *tensors)
        return dq, dk, dg, dv, dinitial_state
