"""Gradients of norms of rows, which interfaces take as matrices, and of groups of channels.

The statistics are formed again from the input, so that a forward pass need not keep them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.norm.kernels.rows import AdaLayerNormCall


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
        grad = grad_out.to(wide)
        y, scale = _normed(x.to(wide), self.call.eps, is_centred=centred)
        inner = grad if weight is None else grad * weight
        grad_x = _through_norm(inner, y, scale, is_centred=centred)
        if grad_sum is not None:
            grad_x += grad_sum
        grad_weight = None if weight is None else (grad * y).sum(0).to(x.dtype)
        grad_bias = grad.sum(0).to(x.dtype) if centred else None
        return grad_x.to(x.dtype), grad_weight, grad_bias


class AdaLayerNormBwdInterface(KernelInterface):
    """Gradients of `gate * (y * scale + shift)`, `y` being the LayerNorm of a row.

    `grad_shift = gate * grad_out`, `grad_scale = y * grad_shift`,
    `grad_gate = grad_out * (y * scale + shift)`, and `grad_x` is that of LayerNorm for
    `scale * grad_shift`.
    """

    request = AdaLayerNormCall

    @abstractmethod
    def forward(
        self,
        grad_out: Tensor,
        x: Tensor,
        scale: Tensor,
        shift: Tensor | None,
        gate: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Compute the gradients.

        Args:
            grad_out: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            x: `[M, n]` likewise; read.
            scale: `[M, n]` likewise; read.
            shift: `[M, n]` likewise, or None exactly when `call.has_gate` is false; read.
            gate: `[M, n]` likewise, or None exactly when `call.has_gate` is false; read.

        Returns:
            `(grad_x, grad_scale, grad_shift, grad_gate)`, new contiguous `[M, n]` in `call.dtype`,
            the last None without a gate. Statistics and products are float32, rounded once. `M` is
            positive and varies between calls.
        """


class AdaLayerNormBwdPortableKernel(PortableKernel[AdaLayerNormCall], AdaLayerNormBwdInterface):
    """The gradients by torch."""

    def forward(
        self,
        grad_out: Tensor,
        x: Tensor,
        scale: Tensor,
        shift: Tensor | None,
        gate: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Compute the gradients."""
        wide = torch.promote_types(x.dtype, torch.float32)
        y, spread = _normed(x.to(wide), self.call.eps, is_centred=True)
        grad, grad_gate = grad_out.to(wide), None
        if gate is not None and shift is not None:
            grad_gate = (grad * (y * scale + shift)).to(x.dtype)
            grad = grad * gate
        grad_x = _through_norm(grad * scale, y, spread, is_centred=True)
        # A copy: without a gate, what arrives is the gradient of the shift.
        grad_shift = grad.to(x.dtype, copy=True)
        return grad_x.to(x.dtype), (grad * y).to(x.dtype), grad_shift, grad_gate


@dataclass(frozen=True)
class GroupNormBwdCall(CallSpec):
    """Gradients of GroupNorm of `groups` groups of channels, with or without a weight."""

    groups: int
    eps: float
    has_weight: bool
    dtype: torch.dtype


class GroupNormBwdInterface(KernelInterface):
    """Gradients of the input, the weight and the bias of GroupNorm.

    Those of LayerNorm, rows being the groups of each sample; weight and bias add up over samples
    and space.
    """

    request = GroupNormBwdCall

    @abstractmethod
    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Compute the gradients.

        Args:
            grad_out: `[B, C, L]` in `call.dtype`, contiguous, on `call.device`; read.
            x: `[B, C, L]` likewise; read. `call.groups` divides `C`.
            weight: `[C]` likewise, or None exactly when `call.has_weight` is false; read.

        Returns:
            `(grad_x, grad_weight, grad_bias)`: a new contiguous `[B, C, L]` and two new `[C]` in
            `call.dtype`, `grad_weight` None without a weight; 0 where there is nothing to add up.
            Statistics, products and sums are float32, rounded once.
        """


class GroupNormBwdPortableKernel(PortableKernel[GroupNormBwdCall], GroupNormBwdInterface):
    """The gradients by torch."""

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Compute the gradients."""
        wide = torch.promote_types(x.dtype, torch.float32)
        batch, channels, length = x.shape
        rows = batch * self.call.groups, channels // self.call.groups * length
        y, scale = _normed(x.to(wide).view(rows), self.call.eps, is_centred=True)
        grad = grad_out.to(wide)
        inner = grad if weight is None else grad * weight[:, None]
        grad_x = _through_norm(inner.view(rows), y, scale, is_centred=True)
        grad_weight = None
        if weight is not None:
            grad_weight = (grad * y.view(x.shape)).sum((0, 2)).to(x.dtype)
        return grad_x.view(x.shape).to(x.dtype), grad_weight, grad.sum((0, 2)).to(x.dtype)


def _normed(x: Tensor, eps: float, *, is_centred: bool) -> tuple[Tensor, Tensor]:
    """Rows normalised, and what they were multiplied by.

    What rounding leaves of a mean far from 0 is taken off as well: sums of gradients add it up.
    """
    if is_centred:
        x = x - x.mean(1, keepdim=True)
        x -= x.mean(1, keepdim=True)
    scale = torch.rsqrt(x.square().mean(1, keepdim=True) + eps)
    return x * scale, scale


def _through_norm(grad: Tensor, y: Tensor, scale: Tensor, *, is_centred: bool) -> Tensor:
    """The gradient of rows, from that of the normalised rows `y`.

    A gradient far from 0 is centred first: rows `y` have no mean but for rounding, which it would
    multiply.
    """
    if is_centred:
        grad = grad - grad.mean(1, keepdim=True)
    return (grad - y * (grad * y).mean(1, keepdim=True)) * scale
