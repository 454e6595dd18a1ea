"""What the ops must give: float64 from the inputs as given, rounded where the ops say so."""

from __future__ import annotations

from torch import Tensor


def softcap(x: Tensor, *, cap: float = 30.0) -> Tensor:
    """`cap * tanh(x / cap)`."""
    return ((x.double() / cap).tanh() * cap).to(x.dtype)


def capped_logits(hidden: Tensor, weight: Tensor, *, cap: float = 30.0) -> Tensor:
    """`softcap(hidden @ weightᵀ)`, the product rounded in between."""
    return softcap((hidden.double() @ weight.double().T).to(hidden.dtype), cap=cap)
