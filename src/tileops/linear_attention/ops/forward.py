"""Recurrences over a matrix state, as serving and training call them; the state is float32."""

from __future__ import annotations

from torch import Tensor

from tileops.kernels import Kernel
from tileops.linear_attention.kernels import (
    StateRecurrenceChunksKernel,
    StateRecurrenceFwdInterface,
    StateRecurrencePortableKernel,
    StateRecurrenceTokensKernel,
)
from tileops.linear_attention.ops.recurrence import (
    DeltaRuleOp,
    GatedDeltaRuleOp,
    GatedLinearOp,
    KimiDeltaRuleOp,
    RecurrenceOp,
)

__all__ = [
    "GatedDeltaNetFwdOp",
    "KimiDeltaAttentionFwdOp",
    "DeltaNetInferenceFwdOp",
    "GLAInferenceFwdOp",
]


class _ForwardOp(RecurrenceOp):
    """A recurrence over a matrix state."""

    kernel_types = {
        "tokens": StateRecurrenceTokensKernel,
        "portable": StateRecurrencePortableKernel,
    }
    interfaces = {"state_recurrence": StateRecurrenceFwdInterface}

    def _run(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor | None,
        beta: Tensor | None,
        initial_state: Tensor | None,
        cu_seqlens: Tensor | None,
        cu_seqlens_cpu: Tensor | None,
        gate: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor]:
        """Run the recurrence; `gate` is what makes the log decay of a raw gate."""
        call = self._call(q, v, initial_state, cu_seqlens, gate[1])
        kernel = self.kernel_for("state_recurrence", call)
        return kernel(q, k, v, g, beta, initial_state, cu_seqlens, cu_seqlens_cpu, *gate)


_OF_WHOLE_HEADS: dict[str, type[Kernel]] = {
    "chunks": StateRecurrenceChunksKernel,
    **_ForwardOp.kernel_types,
}


class _GatedForwardOp(_ForwardOp):
    """A gated delta rule."""

    def forward(
        self,
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
    ) -> tuple[Tensor, Tensor]:
        """Run each sequence."""
        packed = (cu_seqlens, cu_seqlens_cpu)
        return self._run(q, k, v, g, beta, initial_state, *packed, (A_log, dt_bias))


class GatedDeltaNetFwdOp(GatedDeltaRuleOp, _GatedForwardOp):
    """The gated delta rule, `S ← exp(g) S`, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = scale * qᵀ S`.

    One state for each value head, which uses the query and key head `hv // (HV / H)`; `scale` is
    `K ** -0.5` unless given. `use_qk_l2norm_in_kernel` divides q and k by their lengths,
    `use_beta_sigmoid_in_kernel` passes `beta` through a sigmoid, doubled by `allow_neg_eigval`,
    `use_gate_in_kernel` makes the log decay `-exp(A_log) softplus(g + dt_bias)` of a raw `g`, and
    `state_v_first` stores states as `[V, K]`.

    `cu_seqlens` packs sequences into the one batch entry, each with a state; `cu_seqlens_cpu` is a
    copy of them on the host, which a kernel may plan by. An empty sequence keeps its state.

    Source: Gated DeltaNet, Yang et al. 2024; flash-linear-attention.
    """

    kernel_types = _OF_WHOLE_HEADS


class KimiDeltaAttentionFwdOp(KimiDeltaRuleOp, _GatedForwardOp):
    """The gated delta rule with a decay for each channel of the key, `S ← diag(exp(g)) S`.

    Flags are those of `GatedDeltaNetFwdOp`; with a `lower_bound` the log decay of a raw gate is
    `lower_bound * sigmoid(exp(A_log) (g + dt_bias))`. Source: Kimi Linear, 2025.
    """


class DeltaNetInferenceFwdOp(DeltaRuleOp, _ForwardOp):
    """The delta rule, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = scale * qᵀ S`.

    States, packing and flags are those of `GatedDeltaNetFwdOp`. Source: DeltaNet, Yang et al. 2024.
    """

    kernel_types = _OF_WHOLE_HEADS

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Run each sequence."""
        return self._run(q, k, v, None, beta, initial_state, cu_seqlens, cu_seqlens_cpu)


class GLAInferenceFwdOp(GatedLinearOp, _ForwardOp):
    """Gated linear attention, `S ← diag(exp(g)) S + k vᵀ`, `o = scale * qᵀ S`.

    States and packing are those of `GatedDeltaNetFwdOp`. Source: Yang et al. 2023.
    """

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        g: Tensor,
        v: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Run each sequence."""
        return self._run(q, k, v, g, None, initial_state, cu_seqlens, cu_seqlens_cpu)
