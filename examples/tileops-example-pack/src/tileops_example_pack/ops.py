"""The op classes; everything that a call is checked against stands in `spec.yaml`."""

from __future__ import annotations

from math import prod

from tileops import Op
from tileops.gemm import GemmFwdOp
from torch import Tensor

from tileops_example_pack.kernels import SoftcapCall, SoftcapFwdInterface, SoftcapPortableKernel

__all__ = ["CappedLogitsFwdOp", "SoftcapFwdOp"]


class SoftcapFwdOp(Op):
    """Smooth bound on magnitudes: `cap * tanh(x / cap)`, in float32 and rounded once."""

    kernel_types = {"portable": SoftcapPortableKernel}
    interfaces = {"softcap": SoftcapFwdInterface}

    def __init__(self, cap: float = 30.0, *, target: str | None = None) -> None:
        self.cap = cap
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Bound every element."""
        call = SoftcapCall(self.cap, x.dtype, device=x.device)
        y: Tensor = self.kernel_for("softcap", call)(x.reshape(-1).contiguous())
        return y.view(x.shape)


class CappedLogitsFwdOp(Op):
    """Logits of a language model, bounded smoothly: `cap * tanh(hidden @ weightᵀ / cap)`.

    The product is rounded to the dtype before it is bounded.
    """

    delegate_types = {"project": GemmFwdOp, "cap": SoftcapFwdOp}

    def __init__(self, cap: float = 30.0, *, target: str | None = None) -> None:
        self.cap = cap
        super().__init__(target=target)
        self.delegate_for("project", None)
        self.delegate_for("cap", None, cap=cap)

    def forward(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Project the last axis of `hidden` and bound the result."""
        *batch, k = hidden.shape
        project, cap = self.delegate_for("project", None), self.delegate_for("cap", None)
        logits: Tensor = cap(project(hidden.reshape(prod(batch), k), weight))
        return logits.view(*batch, weight.shape[0])
