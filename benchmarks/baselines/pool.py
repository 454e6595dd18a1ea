"""Pooling as torch has it."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline


def per_axis(value: Any, axes: int) -> list[int]:
    """A setting for each axis."""
    return [value] * axes if isinstance(value, int) else list(value)


def average(axes: int) -> Any:
    """Averages of windows of so many axes."""

    def pooled(op: Any, x: Tensor) -> Tensor:
        windows = op.kernel_size, op.stride, op.padding, op.ceil_mode, op.count_include_pad
        if axes == 1:
            return F.avg_pool1d(x, *windows)
        if any(n < k for n, k in zip(x.shape[-axes:], per_axis(op.kernel_size, axes), strict=True)):
            raise NotImplementedError("torch refuses windows that are larger than the input")
        function = F.avg_pool2d if axes == 2 else F.avg_pool3d
        return function(x, *windows, op.divisor_override)

    return pooled


def maximum(axes: int, *, places: bool) -> Any:
    """Maxima of windows of so many axes, and their places where those are asked for."""
    function = getattr(F, f"max_pool{axes}d")

    def pooled(op: Any, x: Tensor) -> Any:
        windows = op.kernel_size, op.stride, op.padding, op.dilation, op.ceil_mode
        return function(x, *windows, return_indices=places)

    return pooled


for _axes in (1, 2, 3):
    baseline("torch", f"AvgPool{_axes}dFwdOp")(average(_axes))
    baseline("torch", f"MaxPool{_axes}dFwdOp")(maximum(_axes, places=False))
    baseline("torch", f"MaxPool{_axes}dIndicesFwdOp")(maximum(_axes, places=True))


def size_of(op: Any) -> Any:
    """The output's size; None is the input's on both axes."""
    return (None, None) if op.output_size is None else op.output_size


@baseline("torch", "AdaptiveAvgPool2dFwdOp")
def adaptive_average(op: Any, x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x, size_of(op))


@baseline("torch", "AdaptiveMaxPool2dFwdOp")
def adaptive_maximum(op: Any, x: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(x, size_of(op))


@baseline("torch", "AdaptiveMaxPool2dIndicesFwdOp")
def adaptive_maximum_places(op: Any, x: Tensor) -> Any:
    return F.adaptive_max_pool2d(x, size_of(op), return_indices=True)
