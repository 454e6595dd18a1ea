"""Gradients of norms of rows: interfaces take matrices; ops flatten leading and trailing axes.

The statistics are formed again from the input, so that a forward pass need not keep them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class RowNormBwdCall(CallSpec):
    """Gradients of RMSNorm or LayerNorm of rows of `n` elements.

    Args:
        n: elements of a row.
        eps: added to the variance or mean of squares.
        is_centred: whether the mean is subtracted first, as LayerNorm does.
        has_weight: whether a weight was applied.
        has_sum: whether the input itself has a gradient beside that of the norm.
        dtype: element type.
    """

    n: int
    eps: float
    is_centred: bool
    has_weight: bool
    has_sum: bool
    dtype: torch.dtype


class RowNormBwdInterface(KernelInterface):
    """Gradients of the input, the weight and the bias of a norm of rows.

    With `y = (x - mean) * r`, `r = 1 / sqrt(var + eps)`, means over a row and `g = grad_out *
    weight`: `grad_x = (g - mean(g) - y * mean(g * y)) * r`, `grad_weight = sum(grad_out * y)` and
    `grad_bias = sum(grad_out)` over the rows. RMSNorm takes its mean, and that of `g`, for 0.
    """

    request = RowNormBwdCall

    @abstractmethod
    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None, grad_sum: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Compute the gradients.

        Args:
            grad_out: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            x: `[M, n]` likewise, what was normalised; read.
            weight: `[n]` likewise, or None exactly when `call.has_weight` is false; read.
            grad_sum: `[M, n]` likewise, added to `grad_x`, or None exactly when `call.has_sum` is
                false; read.

        Returns:
            `(grad_x, grad_weight, grad_bias)`: a new contiguous `[M, n]` and two new `[n]` in
            `call.dtype`, `grad_weight` None without a weight, `grad_bias` None unless
            `call.is_centred`. Statistics, products and sums are float32, rounded once. `M` varies
            between calls and may be 0.
        """


class RowNormBwdPortableKernel(PortableKernel[RowNormBwdCall], RowNormBwdInterface):
    """The gradients by torch."""

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None, grad_sum: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Compute the gradients."""
        wide, centred = torch.promote_types(x.dtype, torch.float32), self.call.is_centred
        grad, y = grad_out.to(wide), x.to(wide)
        if centred:
            y = y - y.mean(1, keepdim=True)
        scale = torch.rsqrt(y.square().mean(1, keepdim=True) + self.call.eps)
        y = y * scale
        inner = grad if weight is None else grad * weight
        along = y * (inner * y).mean(1, keepdim=True)
        if centred:
            along += inner.mean(1, keepdim=True)
        grad_x = (inner - along) * scale
        if grad_sum is not None:
            grad_x += grad_sum
        grad_weight = None if weight is None else (grad * y).sum(0).to(x.dtype)
        grad_bias = grad.sum(0).to(x.dtype) if centred else None
        return grad_x.to(x.dtype), grad_weight, grad_bias
