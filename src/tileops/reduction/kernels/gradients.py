"""Gradients of the softmax along an axis: interface and implementation by torch."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class SoftmaxBwdCall(CallSpec):
    """Gradient of a softmax, or of its logarithm, along one axis.

    Args:
        rank: number of axes.
        axis: the axis, non-negative.
        dtype: element type.
        log: whether the logarithm is meant.
    """

    rank: int
    axis: int
    dtype: torch.dtype
    log: bool = False


class SoftmaxBwdInterface(KernelInterface):
    """`output * (grad_out - sum(grad_out * output))`; `grad_out - exp(output) * sum(grad_out)`.

    The former for a softmax, the latter for its logarithm, sums along the axis.
    """

    request = SoftmaxBwdCall

    @abstractmethod
    def forward(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Compute the gradient.

        Args:
            grad_out: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`;
                read.
            output: what the softmax gave, likewise; read.

        Returns:
            A new contiguous tensor of the same shape in `call.dtype`; products and sums are
            float32, rounded once.
        """


_BACKWARD = torch.ops.aten._softmax_backward_data, torch.ops.aten._log_softmax_backward_data


class SoftmaxBwdPortableKernel(PortableKernel[SoftmaxBwdCall], SoftmaxBwdInterface):
    """The gradient by torch, which forms products and sums of half types in float32."""

    def forward(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Compute the gradient."""
        function = _BACKWARD[self.call.log]
        grad: Tensor = function(grad_out, output, self.call.axis, output.dtype)
        return grad.contiguous()
