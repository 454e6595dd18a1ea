"""Kernel interface of the convolution family and its plain-torch implementation.

The op expands every parameter to one value per spatial axis.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.manifest.primitives import conv


@dataclass(frozen=True)
class ConvCall(CallSpec):
    """A cross-correlation, one entry per spatial axis.

    Args:
        stride: steps between windows.
        padding: zeros before and after each axis.
        dilation: steps between taps.
        groups: groups of channels, each of which sees its own.
        has_bias: whether a bias is added.
        dtype: element type.
    """

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    has_bias: bool
    dtype: torch.dtype


class ConvFwdInterface(KernelInterface):
    """The sum over channels of a group and taps of `input * weight`, plus a bias."""

    request = ConvCall

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Convolve.

        Args:
            x: `[N, C_in, …]` with an axis for each entry of `call.stride`, in `call.dtype`,
                contiguous, on `call.device`; read.
            weight: `[C_out, C_in / groups, …]` likewise; read.
            bias: `[C_out]` likewise, or None exactly when `call.has_bias` is false; read.

        Returns:
            A new contiguous `[N, C_out, …]` in `call.dtype`. Sums are float32, the bias included,
            rounded once. Input or weight may be empty: then the bias is all there is.
        """


class ConvPortableKernel(PortableKernel[ConvCall], ConvFwdInterface):
    """Convolution by torch, in full float32; a CPU has no fast one of float16."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Convolve."""
        call = self.call
        before = tuple(first for first, _ in call.padding)
        after = [extra for first, last in reversed(call.padding) for extra in (0, last - first)]
        if any(after):
            x = F.pad(x, after)
        if not x.numel() or not weight.numel():
            return self._biases(x, weight, bias, before)
        if call.dtype is torch.float16 and not x.is_cuda:
            x, weight, bias = x.float(), weight.float(), None if bias is None else bias.float()
        with self._full_float32(x):
            function = (F.conv1d, F.conv2d, F.conv3d)[len(call.stride) - 1]
            output = function(x, weight, bias, call.stride, before, call.dilation, call.groups)
        return output.to(call.dtype).contiguous()

    def _biases(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, ...]
    ) -> Tensor:
        """The result where there is nothing to add up."""
        call = self.call
        axes = zip(x.shape[2:], weight.shape[2:], call.stride, padding, call.dilation, strict=True)
        extents = [conv.out(*axis) for axis in axes]
        output = x.new_zeros(x.shape[0], weight.shape[0], *extents)
        return output if bias is None else output + bias.reshape(-1, *[1] * len(extents))

    def _full_float32(self, x: Tensor) -> AbstractContextManager[None]:
        """Where cuDNN would round float32 factors to TF32, keep it from that."""
        if x.is_cuda and x.dtype is torch.float32:
            flags: AbstractContextManager[None] = torch.backends.cudnn.flags(
                enabled=True, allow_tf32=False
            )
            return flags
        return nullcontext()
