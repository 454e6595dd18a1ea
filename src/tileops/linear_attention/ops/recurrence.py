"""What recurrences over a matrix state and their gradients share: parameters and call spec."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.linear_attention.kernels import CHUNK, Gate, StateRecurrenceCall


class RecurrenceOp(Op):
    """A recurrence over a matrix state, or its gradients, with the flags that some of them take."""

    gate: Gate
    has_delta_rule = True

    scale: float | None
    use_qk_l2norm_in_kernel = False
    use_beta_sigmoid_in_kernel = False
    allow_neg_eigval = False
    state_v_first = False
    use_gate_in_kernel = False
    lower_bound: float | None = None

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])

    def _factor(self, key_dim: int) -> float:
        """What queries are multiplied by."""
        return key_dim**-0.5 if self.scale is None else self.scale

    def _call(
        self,
        q: Tensor,
        v: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> StateRecurrenceCall:
        """The call spec of these tensors; states that are not given are float32, or wider."""
        wide = torch.promote_types(q.dtype, torch.float32)
        heads, key_dim = q.shape[2:]
        sequences = 1 if cu_seqlens is None else cu_seqlens.shape[0] - 1
        return StateRecurrenceCall(
            heads=heads,
            value_heads=v.shape[2],
            key_dim=key_dim,
            value_dim=v.shape[3],
            scale=self._factor(key_dim),
            gate=self.gate,
            is_raw_gate=self.use_gate_in_kernel,
            lower_bound=self.lower_bound,
            has_delta_rule=self.has_delta_rule,
            beta_range=1 + self.allow_neg_eigval if self.use_beta_sigmoid_in_kernel else 0,
            has_unit_keys=self.use_qk_l2norm_in_kernel,
            is_v_first=self.state_v_first,
            has_gate_bias=dt_bias is not None,
            has_state=initial_state is not None,
            is_packed=cu_seqlens is not None,
            dtype=q.dtype,
            state_dtype=wide if initial_state is None else initial_state.dtype,
            is_long=bool(q.is_cuda and q.shape[1] > CHUNK * sequences),
            device=q.device,
        )


class GatedDeltaRuleOp(RecurrenceOp):
    """The gated delta rule with a decay for each head."""

    gate: Gate = "head"

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.scale = scale
        self.use_qk_l2norm_in_kernel = use_qk_l2norm_in_kernel
        self.use_beta_sigmoid_in_kernel = use_beta_sigmoid_in_kernel
        self.allow_neg_eigval = allow_neg_eigval
        self.state_v_first = state_v_first
        self.use_gate_in_kernel = use_gate_in_kernel
        super().__init__(target=target)


class KimiDeltaRuleOp(GatedDeltaRuleOp):
    """The gated delta rule with a decay for each channel of the key."""

    gate = "channel"

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        lower_bound: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.lower_bound = lower_bound
        super().__init__(
            scale,
            use_qk_l2norm_in_kernel,
            use_beta_sigmoid_in_kernel,
            allow_neg_eigval,
            state_v_first,
            use_gate_in_kernel,
            target=target,
        )


class DeltaRuleOp(RecurrenceOp):
    """The delta rule without a decay."""

    gate = "none"

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.scale = scale
        self.use_qk_l2norm_in_kernel = use_qk_l2norm_in_kernel
        super().__init__(target=target)


class GatedLinearOp(RecurrenceOp):
    """Gated linear attention: a decay for each channel, and no delta rule."""

    gate = "channel"
    has_delta_rule = False

    def __init__(self, scale: float | None = None, *, target: str | None = None) -> None:
        self.scale = scale
        super().__init__(target=target)


class TrainedLinearOp(RecurrenceOp):
    """Gated linear attention whose scale is that of serving unless it is above 0."""

    gate = "channel"
    has_delta_rule = False
    scale: float

    def _factor(self, key_dim: int) -> float:
        """What queries are multiplied by."""
        return self.scale if self.scale > 0 else key_dim**-0.5
