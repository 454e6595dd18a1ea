"""References of the norm family: float64 from the inputs as given, rounded once at the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None = None,
) -> Tensor:
    """`x / sqrt(mean(x²) + eps) * weight` over the trailing axes; `eps=None` is 2⁻²³."""
    axes = tuple(range(-len(normalized_shape), 0))
    wide = x.double()
    square = wide.square().mean(axes, keepdim=True)
    result = wide * torch.rsqrt(square + (2.0**-23 if eps is None else eps))
    return (result if weight is None else result * weight.double()).to(x.dtype)


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, *, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """`residual_out = x + residual`, rounded; `output = rms_norm(residual_out) * weight`."""
    residual_out = (x.double() + residual.double()).to(x.dtype)
    return rms_norm(residual_out, weight, normalized_shape=weight.shape, eps=eps), residual_out


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the trailing axes."""
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x.double() - x.double().mean(axes, keepdim=True)
    result = centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)
    if weight is not None:
        result = result * weight.double()
    if bias is not None:
        result = result + bias.double()
    return result.to(x.dtype)
