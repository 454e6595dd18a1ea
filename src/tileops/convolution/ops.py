"""Convolution ops: parameters are expanded to one value per axis and handed to one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.convolution.kernels import ConvCall, ConvFwdInterface, ConvPortableKernel
from tileops.manifest.primitives import per_axis

__all__ = ["Conv1dFwdOp", "Conv2dFwdOp", "Conv3dFwdOp"]

PerAxis = int | Sequence[int]
"""One value for all spatial axes, or one for each."""


class _ConvOp(Op):
    """Cross-correlation over the last `axes` axes."""

    kernel_types = {"portable": ConvPortableKernel}
    interfaces = {"conv": ConvFwdInterface}
    axes: ClassVar[int]

    def __init__(
        self,
        stride: PerAxis = 1,
        padding: PerAxis | Literal["valid", "same"] = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
        *,
        target: str | None = None,
    ) -> None:
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        super().__init__(target=target)

    def forward(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Convolve `input` with `weight`."""
        call = ConvCall(
            self._expanded(self.stride),
            self._paddings(weight),
            self._expanded(self.dilation),
            self.groups,
            bias is not None,
            input.dtype,
            device=input.device,
        )
        kernel = self.kernel_for("conv", call)
        bias = None if bias is None else bias.contiguous()
        return kernel(input.contiguous(), weight.contiguous(), bias)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])

    def _expanded(self, value: PerAxis) -> tuple[int, ...]:
        """A parameter as one value per axis."""
        return tuple(per_axis(value, axis, self.axes) for axis in range(self.axes))

    def _paddings(self, weight: Tensor) -> tuple[tuple[int, int], ...]:
        """Zeros before and after each axis; an odd one of `"same"` comes after."""
        if not isinstance(self.padding, str):
            return tuple((extra, extra) for extra in self._expanded(self.padding))
        if self.padding == "valid":
            return ((0, 0),) * self.axes
        taps = zip(weight.shape[2:], self._expanded(self.dilation), strict=True)
        totals = [step * (extent - 1) for extent, step in taps]
        return tuple((total // 2, total - total // 2) for total in totals)


class Conv1dFwdOp(_ConvOp):
    """Cross-correlation over one axis, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv1d`.
    """

    axes = 1


class Conv2dFwdOp(_ConvOp):
    """Cross-correlation over two axes, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv2d`.
    """

    axes = 2


class Conv3dFwdOp(_ConvOp):
    """Cross-correlation over three axes, with grouping, dilation and bias.

    Sums are float32, the bias included, and rounded once.

    Source: `torch.nn.functional.conv3d`.
    """

    axes = 3
