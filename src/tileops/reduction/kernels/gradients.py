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


class SoftmaxBwdPortableKernel(PortableKernel[SoftmaxBwdCall], SoftmaxBwdInterface):
    """The gradient by torch."""

    def forward(self, grad_out: Tensor, output: Tensor) -> Tensor:
        """Compute the gradient."""
        wide = torch.promote_types(output.dtype, torch.float32)
        grad, y, axis = grad_out.to(wide), output.to(wide), self.call.axis
        if self.call.log:
            found = grad - y.exp() * grad.sum(axis, keepdim=True)
        else:
            found = y * (grad - (grad * y).sum(axis, keepdim=True))
        return found.to(output.dtype).contiguous()
