"""Kernel interfaces of the pool family and their plain-torch implementations.

Ops expand every parameter to one value per pooled axis.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.manifest.primitives import pool


@dataclass(frozen=True)
class AvgPoolCall(CallSpec):
    """Averages over sliding windows, one entry per pooled axis.

    Args:
        kernel: extents of the window.
        stride: steps between windows.
        padding: zeros before and after each axis.
        ceil_mode: whether a last window may hang over the end.
        count_include_pad: whether padding counts in the divisor; the overhang never does.
        divisor: what sums are divided by; None for the number of elements.
        dtype: element type.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None
    dtype: torch.dtype


class AvgPoolFwdInterface(KernelInterface):
    """The average over each window."""

    request = AvgPoolCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Pool.

        Args:
            x: `[N, C, …]` with an axis for each entry of `call.kernel`, in `call.dtype`,
                contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[N, C, …]` in `call.dtype`; sums are float32, rounded once.
        """


class AvgPoolPortableKernel(PortableKernel[AvgPoolCall], AvgPoolFwdInterface):
    """Averages by torch, which has none of three axes for half types or wide windows."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool."""
        call = self.call
        windows = (call.kernel, call.stride, call.padding, call.ceil_mode, call.count_include_pad)
        if len(call.kernel) == 1:
            return F.avg_pool1d(x, *windows)
        if len(call.kernel) == 2:
            return F.avg_pool2d(x, *windows, call.divisor)
        if all(n >= k for n, k in zip(x.shape[2:], call.kernel, strict=True)):
            return F.avg_pool3d(x.float(), *windows, call.divisor).to(x.dtype)
        return self._average_padded(x.float()).to(x.dtype)

    def _average_padded(self, x: Tensor) -> Tensor:
        """Sums over windows of explicitly padded axes, by the divisor or the sizes of windows."""
        call = self.call
        sides: list[int] = []
        count = torch.ones((), dtype=torch.float32, device=x.device)
        for n, k, s, p in zip(x.shape[2:], call.kernel, call.stride, call.padding, strict=True):
            extent = pool.out(n, k, s, p, 1, call.ceil_mode)
            start = torch.arange(extent, device=x.device) * s - p
            first, last = (0, n) if not call.count_include_pad else (-p, n + p)
            count = count[..., None] * ((start + k).clamp(max=last) - start.clamp(min=first))
            sides = [p, (extent - 1) * s + k - p - n, *sides]
        total = F.avg_pool3d(F.pad(x, sides), call.kernel, call.stride, divisor_override=1)
        return total / (call.divisor or count)


@dataclass(frozen=True)
class MaxPoolCall(CallSpec):
    """Maxima over sliding windows, one entry per pooled axis, as for averages.

    Args:
        kernel: taps of the window.
        stride: steps between windows.
        padding: places with -inf before and after each axis.
        dilation: steps between taps.
        ceil_mode: whether a last window may hang over the end.
        dtype: element type.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool
    dtype: torch.dtype


class MaxPoolFwdInterface(KernelInterface):
    """The maximum over each window."""

    request = MaxPoolCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Pool.

        Args:
            x: `[N, C, …]` with an axis for each entry of `call.kernel`, in `call.dtype`,
                contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[N, C, …]` in `call.dtype`. NaN wins.
        """


class MaxPoolIndicesFwdInterface(KernelInterface):
    """The maximum over each window, and its place."""

    request = MaxPoolCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pool.

        Args:
            x: `[N, C, …]` with an axis for each entry of `call.kernel`, in `call.dtype`,
                contiguous, on `call.device`; read.

        Returns:
            `(maxima, indices)`, both new and contiguous: the maxima in `call.dtype`, and int64
            places in the flattened plane or volume without padding, of the first of equal maxima
            or the last NaN. A window without any tap in the plane gives -inf and the place of its
            first tap that is not before the plane.
        """


def _max_pool(x: Tensor, call: MaxPoolCall, *, places: bool) -> Any:
    """Torch's function for the number of axes."""
    function: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(call.kernel) - 1]
    windows = (call.kernel, call.stride, call.padding, call.dilation, call.ceil_mode)
    return function(x, *windows, return_indices=places)


class MaxPoolPortableKernel(PortableKernel[MaxPoolCall], MaxPoolFwdInterface):
    """Maxima by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool."""
        maxima: Tensor = _max_pool(x, self.call, places=False)
        return maxima


class MaxPoolIndicesPortableKernel(PortableKernel[MaxPoolCall], MaxPoolIndicesFwdInterface):
    """Maxima and their places by torch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pool."""
        maxima, indices = _max_pool(x, self.call, places=True)
        return maxima, indices


@dataclass(frozen=True)
class AdaptivePoolCall(CallSpec):
    """Windows `[floor(i L / O), ceil((i + 1) L / O))` that cover each of two axes.

    Args:
        function: `"avg"` or `"max"`.
        output: extents `O` of the result.
        dtype: element type.
    """

    function: Literal["avg", "max"]
    output: tuple[int, int]
    dtype: torch.dtype


class AdaptivePoolFwdInterface(KernelInterface):
    """The average or the maximum over each window."""

    request = AdaptivePoolCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Pool.

        Args:
            x: `[B, C, H, W]` in `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[B, C, *call.output]` in `call.dtype`; sums are float32, rounded
            once, and NaN wins in maxima.
        """


class AdaptiveMaxPoolIndicesFwdInterface(KernelInterface):
    """The maximum over each window, and its place."""

    request = AdaptivePoolCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pool.

        Args:
            x: `[B, C, H, W]` in `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            `(maxima, indices)`, two new contiguous `[B, C, *call.output]`: the maxima in
            `call.dtype`, and int64 places in the flattened plane, of the first of equal maxima or
            the last NaN.
        """


class AdaptivePoolPortableKernel(PortableKernel[AdaptivePoolCall], AdaptivePoolFwdInterface):
    """Adaptive pooling by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool."""
        if self.call.function == "avg":
            return F.adaptive_avg_pool2d(x, self.call.output)
        return F.adaptive_max_pool2d(x, self.call.output)


class AdaptiveMaxPoolIndicesPortableKernel(
    PortableKernel[AdaptivePoolCall], AdaptiveMaxPoolIndicesFwdInterface
):
    """Adaptive maxima and their places by torch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pool."""
        maxima, indices = F.adaptive_max_pool2d(x, self.call.output, return_indices=True)
        return maxima, indices


@dataclass(frozen=True)
class MeanPoolingCall(CallSpec):
    """Means over chunks of a sequence axis.

    Args:
        chunk: rows of a full chunk, a multiple of 32.
        is_packed: whether offsets and chunk indices are given.
        dtype: element type.
        accum_dtype: float type whose precision sums have at least.
    """

    chunk: int
    is_packed: bool
    dtype: torch.dtype
    accum_dtype: torch.dtype


class MeanPoolingFwdInterface(KernelInterface):
    """The mean of each chunk, a tail divided by its own length."""

    request = MeanPoolingCall

    @abstractmethod
    def forward(self, x: Tensor, offsets: Tensor | None, indices: Tensor | None) -> Tensor:
        """Pool.

        Args:
            x: `[B, S, H, D]` in `call.dtype`, any strides, on `call.device`; read.
            offsets: `[NS + 1]` int32, contiguous: where the sequences of every batch row start,
                then `S`; None exactly when `call.is_packed` is false; read.
            indices: `[NC, 2]` int32, contiguous: sequence and chunk within it of each chunk; None
                likewise; read.

        Returns:
            A new contiguous `[B, NC, H, D]`, or `[B, ceil(S / chunk), H, D]` where nothing is
            packed, in `call.dtype`. Sums are float32 or wider, rounded once.
        """


class MeanPoolingPortableKernel(PortableKernel[MeanPoolingCall], MeanPoolingFwdInterface):
    """Means by torch, of full chunks and the tail, or of rows gathered into padded chunks."""

    def __init__(self, call: MeanPoolingCall) -> None:
        super().__init__(call)
        self._wide = torch.float64 if call.accum_dtype is torch.float64 else torch.float32

    def forward(self, x: Tensor, offsets: Tensor | None, indices: Tensor | None) -> Tensor:
        """Pool."""
        if offsets is None or indices is None:
            return self._pool_rows(x)
        sequence, chunk = indices.long().unbind(1)
        bounds = offsets.long()
        start = bounds[sequence] + chunk * self.call.chunk
        stop = torch.minimum(start + self.call.chunk, bounds[sequence + 1])
        row = start[:, None] + torch.arange(self.call.chunk, device=x.device)
        inside = (row < stop[:, None])[:, :, None, None]
        rows = x[:, row.clamp(max=x.shape[1] - 1)].to(self._wide)
        total = torch.where(inside, rows, 0).sum(2)
        return (total / (stop - start)[:, None, None]).to(x.dtype)

    def _pool_rows(self, x: Tensor) -> Tensor:
        """Chunks from the first row on."""
        full = x.shape[1] // self.call.chunk * self.call.chunk
        chunks = x[:, :full].unflatten(1, (-1, self.call.chunk))
        means = [chunks.mean(2, dtype=self._wide)]
        if full < x.shape[1]:
            means.append(x[:, full:].mean(1, keepdim=True, dtype=self._wide))
        return torch.cat(means, 1).to(x.dtype)
