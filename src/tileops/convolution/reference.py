"""References of the convolution family: float64 products of explicit windows, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PerAxis = int | Sequence[int]


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, **params: Any) -> Tensor:
    """Cross-correlation over one axis."""
    return _convolved(input, weight, bias, **params)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, **params: Any) -> Tensor:
    """Cross-correlation over two axes."""
    return _convolved(input, weight, bias, **params)


def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, **params: Any) -> Tensor:
    """Cross-correlation over three axes."""
    return _convolved(input, weight, bias, **params)


def _convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis | str = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Windows cut out of the padded input, multiplied by the weight of their group."""
    axes = x.dim() - 2
    steps, spread = _per_axis(stride, axes), _per_axis(dilation, axes)
    totals = [d * (k - 1) for d, k in zip(spread, weight.shape[2:], strict=True)]
    if padding == "same":
        sides = [(total // 2, total - total // 2) for total in totals]
    else:
        sides = [(p, p) for p in _per_axis(0 if isinstance(padding, str) else padding, axes)]
    wide = F.pad(x.double(), [side for pair in reversed(sides) for side in pair])
    for axis, (k, s, d, total) in enumerate(
        zip(weight.shape[2:], steps, spread, totals, strict=True), start=2
    ):
        starts = torch.arange(0, wide.shape[axis] - total, s)
        index = starts[:, None] + d * torch.arange(k)
        wide = wide[(slice(None),) * axis + (index,)].movedim(axis + 1, -1)
    grouped = wide.unflatten(1, (groups, x.shape[1] // groups))
    factors = weight.double().unflatten(0, (groups, weight.shape[0] // groups))
    out, taps = "xyz"[:axes], "uvw"[:axes]
    result = torch.einsum(f"ngc{out}{taps},gmc{taps}->ngm{out}", grouped, factors).flatten(1, 2)
    if bias is not None:
        result = result + bias.double().reshape(-1, *[1] * axes)
    return result.to(x.dtype)


def _per_axis(value: PerAxis, axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)
