"""One token of a recurrence over a matrix state, whose state has the dtype of the rest."""

from __future__ import annotations

from torch import Tensor

from tileops.linear_attention.kernels import (
    StateRecurrenceFwdInterface,
    StateRecurrencePortableKernel,
    StateRecurrenceTokensKernel,
)
from tileops.linear_attention.ops.recurrence import RecurrenceOp, TrainedLinearOp

__all__ = [
    "DeltaNetDecodeFwdOp",
    "GLADecodeFwdOp",
]


class _DecodeOp(RecurrenceOp):
    """A recurrence over a matrix state, on one token."""

    kernel_types = {
        "tokens": StateRecurrenceTokensKernel,
        "portable": StateRecurrencePortableKernel,
    }
    interfaces = {"state_recurrence": StateRecurrenceFwdInterface}

    def _token(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run a sequence of one token; the new state is rounded to the dtype of the given one."""
        q, k, v = q[:, None], k[:, None], v[:, None]
        g, beta = (None if part is None else part[:, None] for part in (g, beta))
        kernel = self.kernel_for("state_recurrence", self._call(q, v, state))
        o, new = kernel(q, k, v, g, beta, state, None, None, None, None)
        return o[:, 0], new


class DeltaNetDecodeFwdOp(_DecodeOp):
    """One token of the delta rule, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = qᵀ S`: `(o, new_state)`.

    The state that is given stays as it is. Arithmetic is float32; the new state is rounded once.
    Source: DeltaNet, Yang et al. 2024.
    """

    gate = "none"
    scale = 1.0

    def __init__(self, *, target: str | None = None) -> None:
        super().__init__(target=target)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take up one token and read the state."""
        return self._token(q, k, v, None, beta, state)


class GLADecodeFwdOp(TrainedLinearOp, _DecodeOp):
    """One token of gated linear attention, `S ← diag(exp(gk)) S + k vᵀ`, `o = scale * qᵀ S`.

    Returns `(o, new_state)`; the state that is given stays as it is. `scale` is `DK ** -0.5` unless
    above 0. Arithmetic is float32; the new state is rounded once. Source: Yang et al. 2023.
    """

    def __init__(self, scale: float = -1.0, *, target: str | None = None) -> None:
        self.scale = scale
        super().__init__(target=target)

    def forward(
        self, q: Tensor, k: Tensor, gk: Tensor, v: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take up one token and read the state."""
        return self._token(q, k, v, gk, None, state)
