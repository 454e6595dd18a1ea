"""Gradients of gated activations: interface and implementation by torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from tileops.elementwise.kernels.pointwise import FUNCTIONS, GatedCall
from tileops.kernels import KernelInterface, PortableKernel


class GatedBwdInterface(KernelInterface):
    """Gradient of `y = function(gate) * value`, each row of `x` holding gate, then value.

    `grad_gate = grad_out * value * function'(gate)` and `grad_value = grad_out * function(gate)`.
    """

    request = GatedCall

    @abstractmethod
    def forward(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Compute the gradient.

        Args:
            grad_out: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            x: `[M, 2 * n]` likewise; read.

        Returns:
            A new contiguous `[M, 2 * n]` in `call.dtype`; functions and products are float32,
            rounded once. `M` is positive and varies between calls.
        """


_DERIVED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": torch.ops.aten.silu_backward,
    "gelu": torch.ops.aten.gelu_backward,
    "gelu_tanh": partial(torch.ops.aten.gelu_backward, approximate="tanh"),
}
"""Torch's product of a gradient with the derivative of each function."""


class GatedBwdPortableKernel(PortableKernel[GatedCall], GatedBwdInterface):
    """The gradient by torch, in float32 between the two halves of a row."""

    def forward(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Compute the gradient."""
        n, function = self.call.n, self.call.function
        wide = torch.promote_types(x.dtype, torch.float32)
        gate, grad = x[:, :n].to(wide), grad_out.to(wide)
        grad_x = torch.empty_like(x)
        grad_x[:, :n] = _DERIVED[function](grad * x[:, n:], gate)
        grad_x[:, n:] = FUNCTIONS[function](gate).mul_(grad)
        return grad_x
