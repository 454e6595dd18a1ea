"""References of the pool family: float64 over explicit windows, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

PerAxis = int | Sequence[int]
Taps = list[tuple[list[list[int]], list[int]]]
"""For each axis: the places of each window's taps, also outside; the length of each window
within the padded axis."""


def avg_pool1d(
    input: Tensor,
    *,
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Averages of windows of one axis."""
    taps = _taps(input, 1, kernel_size, stride, padding, 1, ceil_mode)
    return _average(input, taps, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    *,
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Averages of windows of two axes."""
    taps = _taps(input, 2, kernel_size, stride, padding, 1, ceil_mode)
    return _average(input, taps, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    *,
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Averages of windows of three axes."""
    taps = _taps(input, 3, kernel_size, stride, padding, 1, ceil_mode)
    return _average(input, taps, count_include_pad, divisor_override)


def max_pool1d(input: Tensor, **windows: Any) -> Tensor:
    """Maxima of windows of one axis."""
    return _windowed_maximum(input, 1, **windows)[0]


def max_pool2d(input: Tensor, **windows: Any) -> Tensor:
    """Maxima of windows of two axes."""
    return _windowed_maximum(input, 2, **windows)[0]


def max_pool3d(input: Tensor, **windows: Any) -> Tensor:
    """Maxima of windows of three axes."""
    return _windowed_maximum(input, 3, **windows)[0]


def max_pool1d_indices(input: Tensor, **windows: Any) -> tuple[Tensor, Tensor]:
    """Maxima of windows of one axis, and their places."""
    return _windowed_maximum(input, 1, **windows)


def max_pool2d_indices(input: Tensor, **windows: Any) -> tuple[Tensor, Tensor]:
    """Maxima of windows of two axes, and their places."""
    return _windowed_maximum(input, 2, **windows)


def max_pool3d_indices(input: Tensor, **windows: Any) -> tuple[Tensor, Tensor]:
    """Maxima of windows of three axes, and their places."""
    return _windowed_maximum(input, 3, **windows)


def adaptive_avg_pool2d(input: Tensor, *, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Averages of windows that cover both axes."""
    return _average(input, _adaptive_taps(input, output_size), False, None)


def adaptive_max_pool2d(input: Tensor, *, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Maxima of windows that cover both axes."""
    return _maximum(input, _adaptive_taps(input, output_size))[0]


def adaptive_max_pool2d_indices(
    input: Tensor, *, output_size: int | Sequence[int | None] | None
) -> tuple[Tensor, Tensor]:
    """Maxima of windows that cover both axes, and their places."""
    return _maximum(input, _adaptive_taps(input, output_size))


def mean_pooling(
    x: Tensor,
    offsets: Tensor | None = None,
    indices: Tensor | None = None,
    *,
    chunk_size: int,
    accum_dtype: torch.dtype,
) -> Tensor:
    """Means of chunks that restart at every offset."""
    bounds = [0, x.shape[1]] if offsets is None else offsets.tolist()
    spans = [
        (low, min(low + chunk_size, stop))
        for start, stop in pairwise(bounds)
        for low in range(start, stop, chunk_size)
    ]
    means = [x[:, low:high].double().mean(1) for low, high in spans]
    empty = x.new_empty(x.shape[0], 0, *x.shape[2:])
    return torch.stack(means, 1).to(x.dtype) if means else empty


def _per_axis(value: PerAxis, axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _taps(
    x: Tensor,
    axes: int,
    kernel_size: PerAxis,
    stride: PerAxis | None,
    padding: PerAxis,
    dilation: PerAxis,
    ceil_mode: bool,
) -> Taps:
    """The windows of each of the last axes."""
    settings = (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    found: Taps = []
    for length, k, s, p, d in zip(
        x.shape[-axes:], *(_per_axis(setting, axes) for setting in settings), strict=True
    ):
        starts, start = [], -p
        # A window fits; in ceil mode it may hang over the end but starts before the padding there.
        while start + d * (k - 1) < length + p or (
            ceil_mode and start < length and start + d * (k - 1) - s < length + p - 1
        ):
            starts.append(start)
            start += s
        places = [[start + d * tap for tap in range(k)] for start in starts]
        found.append((places, [min(start + k, length + p) - start for start in starts]))
    return found


def _adaptive_taps(x: Tensor, output_size: int | Sequence[int | None] | None) -> Taps:
    """Windows `[floor(i L / O), ceil((i + 1) L / O))`, padded at the end to one length."""
    sizes = (
        [output_size] * 2 if output_size is None or isinstance(output_size, int) else output_size
    )
    found: Taps = []
    for length, size in zip(x.shape[-2:], sizes, strict=True):
        out = length if size is None else size
        spans = [range(i * length // out, -(-(i + 1) * length // out)) for i in range(out)]
        longest = max(map(len, spans))
        places = [[*span, *[length] * (longest - len(span))] for span in spans]
        found.append((places, [len(span) for span in spans]))
    return found


def _windows(x: Tensor, taps: Taps) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of all taps, on the last axis: values, flattened places, inside, not before the plane."""
    axes, lengths = len(taps), x.shape[-len(taps) :]
    after = inside = torch.ones((), dtype=torch.bool)
    place = torch.zeros((), dtype=torch.int64)
    for axis, ((places, _), length) in enumerate(zip(taps, lengths, strict=True)):
        index = torch.tensor(places)
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = index.shape
        index = index.reshape(shape)
        inside = inside & (index >= 0) & (index < length)
        after = after & (index >= 0)
        place = place * length + index
    place, inside, after = (p.flatten(axes) for p in torch.broadcast_tensors(place, inside, after))
    flat = x.flatten(-axes)
    return flat[..., place.clamp(0, flat.shape[-1] - 1)], place, inside, after


def _average(x: Tensor, taps: Taps, counts_padding: bool, divisor: int | None) -> Tensor:
    """The sum of each window by the divisor, its padded size or its taps inside."""
    values, _, inside, _ = _windows(x, taps)
    total = torch.where(inside, values.double(), 0).sum(-1)
    count = torch.ones((), dtype=torch.float64)
    for _, sizes in taps:
        count = count[..., None] * torch.tensor(sizes, dtype=torch.float64)
    by = divisor or (count if counts_padding else inside.sum(-1))
    return (total / by).to(x.dtype)


def _windowed_maximum(
    x: Tensor,
    axes: int,
    *,
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    taps = _taps(x, axes, kernel_size, stride, padding, dilation, ceil_mode)
    return _maximum(x, taps)


def _maximum(x: Tensor, taps: Taps) -> tuple[Tensor, Tensor]:
    """The last NaN of each window, or else the first maximum, and its place.

    Without taps inside it is -inf, at the first tap that is not before the plane.
    """
    values, place, inside, after = _windows(x, taps)
    values = torch.where(inside, values, -torch.inf)
    number = values.nan_to_num(-torch.inf, torch.inf, -torch.inf)
    best = (values == number.amax(-1, keepdim=True)) & inside
    best = torch.where(inside.any(-1, keepdim=True), best, after)
    first, last = best.int().argmax(-1), values.isnan().int().flip(-1).argmax(-1)
    last = values.shape[-1] - 1 - last
    chosen = torch.where(values.isnan().any(-1), last, first)[..., None]
    return values.gather(-1, chosen)[..., 0], place.expand(values.shape).gather(-1, chosen)[..., 0]
