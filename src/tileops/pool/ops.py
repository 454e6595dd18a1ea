"""Pooling ops: parameters are expanded to one value per axis and handed to one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.manifest.primitives import per_axis
from tileops.pool.kernels import (
    AdaptiveMaxPoolIndicesFwdInterface,
    AdaptiveMaxPoolIndicesPortableKernel,
    AdaptivePoolCall,
    AdaptivePoolFwdInterface,
    AdaptivePoolPortableKernel,
    AvgPoolCall,
    AvgPoolFwdInterface,
    AvgPoolPortableKernel,
    MaxPoolCall,
    MaxPoolFwdInterface,
    MaxPoolIndicesFwdInterface,
    MaxPoolIndicesPortableKernel,
    MaxPoolPortableKernel,
    MeanPoolingCall,
    MeanPoolingFwdInterface,
    MeanPoolingPortableKernel,
)

__all__ = [
    "AvgPool1dFwdOp",
    "AvgPool2dFwdOp",
    "AvgPool3dFwdOp",
    "MaxPool1dFwdOp",
    "MaxPool2dFwdOp",
    "MaxPool3dFwdOp",
    "MaxPool1dIndicesFwdOp",
    "MaxPool2dIndicesFwdOp",
    "MaxPool3dIndicesFwdOp",
    "AdaptiveAvgPool2dFwdOp",
    "AdaptiveMaxPool2dFwdOp",
    "AdaptiveMaxPool2dIndicesFwdOp",
    "MeanPoolingFwdOp",
]

PerAxis = int | Sequence[int]
"""One value for all pooled axes, or one for each."""


class _WindowOp(Op):
    """Pools windows that slide over the last `axes` axes; `stride=None` is the window's extent."""

    axes: ClassVar[int]
    kernel_size: PerAxis
    stride: PerAxis | None
    padding: PerAxis

    def _expanded(self, value: PerAxis) -> tuple[int, ...]:
        """A parameter as one value per axis."""
        return tuple(per_axis(value, axis, self.axes) for axis in range(self.axes))

    def _windows(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Extents, strides and paddings."""
        stride = self.kernel_size if self.stride is None else self.stride
        return (
            self._expanded(self.kernel_size),
            self._expanded(stride),
            self._expanded(self.padding),
        )


class _AvgPoolOp(_WindowOp):
    """Averages over sliding windows."""

    kernel_types = {"portable": AvgPoolPortableKernel}
    interfaces = {"avg_pool": AvgPoolFwdInterface}

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: PerAxis = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Average over the windows of `input`."""
        call = AvgPoolCall(
            *self._windows(),
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
            input.dtype,
            device=input.device,
        )
        return self.kernel_for("avg_pool", call)(input.contiguous())


class AvgPool1dFwdOp(_AvgPoolOp):
    """Averages over windows of one axis, summed in float32.

    Padding counts in the divisor unless `count_include_pad` is false; the overhang of `ceil_mode`
    never does.

    Source: `torch.nn.functional.avg_pool1d`.
    """

    axes = 1

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: PerAxis = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        target: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad, target=target)


class AvgPool2dFwdOp(_AvgPoolOp):
    """Averages over windows of two axes, summed in float32, with a divisor to choose.

    Source: `torch.nn.functional.avg_pool2d`.
    """

    axes = 2


class AvgPool3dFwdOp(_AvgPoolOp):
    """Averages over windows of three axes, summed in float32, with a divisor to choose.

    Source: `torch.nn.functional.avg_pool3d`.
    """

    axes = 3


class _MaxPoolOp(_WindowOp):
    """Maxima over sliding windows."""

    kernel_types = {"portable": MaxPoolPortableKernel}
    interfaces = {"max_pool": MaxPoolFwdInterface}

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: PerAxis = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.ceil_mode = ceil_mode
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Take the maxima of the windows of `input`."""
        return self.kernel_for("max_pool", self._call(input))(input.contiguous())

    def _call(self, x: Tensor) -> MaxPoolCall:
        """The call spec."""
        dilation = self._expanded(self.dilation)
        return MaxPoolCall(*self._windows(), dilation, self.ceil_mode, x.dtype, device=x.device)


class MaxPool1dFwdOp(_MaxPoolOp):
    """Maxima over windows of one axis; NaN wins. Source: `torch.nn.functional.max_pool1d`."""

    axes = 1


class MaxPool2dFwdOp(_MaxPoolOp):
    """Maxima over windows of two axes; NaN wins. Source: `torch.nn.functional.max_pool2d`."""

    axes = 2


class MaxPool3dFwdOp(_MaxPoolOp):
    """Maxima over windows of three axes; NaN wins. Source: `torch.nn.functional.max_pool3d`."""

    axes = 3


class _MaxPoolIndicesOp(_MaxPoolOp):
    """Maxima over sliding windows, and their places."""

    kernel_types = {"portable": MaxPoolIndicesPortableKernel}
    interfaces = {"max_pool_indices": MaxPoolIndicesFwdInterface}

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Take the maxima of the windows of `input`, and their places."""
        return self.kernel_for("max_pool_indices", self._call(input))(input.contiguous())


class MaxPool1dIndicesFwdOp(_MaxPoolIndicesOp):
    """Maxima over windows of one axis and their places: returns `(output, indices)`.

    Places count in the flattened plane without padding: the first of equal maxima, the last NaN.

    Source: `torch.nn.functional.max_pool1d` with `return_indices`.
    """

    axes = 1


class MaxPool2dIndicesFwdOp(_MaxPoolIndicesOp):
    """Maxima over windows of two axes and their places, as in one: `(output, indices)`.

    Source: `torch.nn.functional.max_pool2d` with `return_indices`.
    """

    axes = 2


class MaxPool3dIndicesFwdOp(_MaxPoolIndicesOp):
    """Maxima over windows of three axes and their places, as in one: `(output, indices)`.

    Source: `torch.nn.functional.max_pool3d` with `return_indices`.
    """

    axes = 3


class _AdaptivePoolOp(Op):
    """Pools windows that cover two axes evenly; `None` keeps an extent."""

    kernel_types = {"portable": AdaptivePoolPortableKernel}
    interfaces = {"adaptive_pool": AdaptivePoolFwdInterface}
    function: ClassVar[Literal["avg", "max"]] = "max"

    def __init__(
        self, output_size: int | Sequence[int | None] | None, *, target: str | None = None
    ) -> None:
        self.output_size = output_size
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Pool the windows of `input`."""
        planes = _planes(input)
        pooled = self.kernel_for("adaptive_pool", self._call(input))(planes)
        return pooled.view(*input.shape[:-2], *pooled.shape[-2:])

    def _call(self, x: Tensor) -> AdaptivePoolCall:
        """The call spec."""
        height, width = (per_axis(self.output_size, axis, 2, x.shape[axis - 2]) for axis in (0, 1))
        return AdaptivePoolCall(self.function, (height, width), x.dtype, device=x.device)


def _planes(x: Tensor) -> Tensor:
    """`x` as contiguous `[B, C, H, W]`."""
    return x.contiguous() if x.dim() == 4 else x[None].contiguous()


class AdaptiveAvgPool2dFwdOp(_AdaptivePoolOp):
    """Averages over windows `[floor(i L / O), ceil((i + 1) L / O))`, summed in float32.

    Windows overlap when an extent is no multiple, and repeat when the result is larger.

    Source: `torch.nn.functional.adaptive_avg_pool2d`.
    """

    function = "avg"


class AdaptiveMaxPool2dFwdOp(_AdaptivePoolOp):
    """Maxima over windows `[floor(i L / O), ceil((i + 1) L / O))`; NaN wins.

    Source: `torch.nn.functional.adaptive_max_pool2d`.
    """


class AdaptiveMaxPool2dIndicesFwdOp(_AdaptivePoolOp):
    """Maxima as in `AdaptiveMaxPool2dFwdOp`, and their places: returns `(output, indices)`.

    Places count in the flattened plane: the first of equal maxima, the last NaN.

    Source: `torch.nn.functional.adaptive_max_pool2d` with `return_indices`.
    """

    kernel_types = {"portable": AdaptiveMaxPoolIndicesPortableKernel}
    interfaces = {"adaptive_max_pool_indices": AdaptiveMaxPoolIndicesFwdInterface}

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Take the maxima of the windows of `input`, and their places."""
        kernel = self.kernel_for("adaptive_max_pool_indices", self._call(input))
        maxima, indices = kernel(_planes(input))
        shape = *input.shape[:-2], *maxima.shape[-2:]
        return maxima.view(shape), indices.view(shape)


class MeanPoolingFwdOp(Op):
    """Mean of each chunk of at most `chunk_size` rows of a sequence axis.

    A tail is divided by its own length. With offsets of packed sequences, chunks restart at every
    boundary, and the same boundaries serve every batch row. Sums have the precision of
    `accum_dtype`, float32 at least, and are rounded once.

    Source: block compression of linear and sparse attention.
    """

    kernel_types = {"portable": MeanPoolingPortableKernel}
    interfaces = {"mean_pooling": MeanPoolingFwdInterface}

    def __init__(
        self, chunk_size: int, accum_dtype: torch.dtype, *, target: str | None = None
    ) -> None:
        self.chunk_size = chunk_size
        self.accum_dtype = accum_dtype
        super().__init__(target=target)

    def forward(
        self, x: Tensor, offsets: Tensor | None = None, indices: Tensor | None = None
    ) -> Tensor:
        """Average the chunks of `x`."""
        call = MeanPoolingCall(
            self.chunk_size, offsets is not None, x.dtype, self.accum_dtype, device=x.device
        )
        metadata = (None if part is None else part.contiguous() for part in (offsets, indices))
        return self.kernel_for("mean_pooling", call)(x, *metadata)
