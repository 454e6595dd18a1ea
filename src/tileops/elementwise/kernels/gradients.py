"""Gradients of gated activations: interface and implementation by torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from tileops._kernels.pieces import by_rows
from tileops.elementwise.kernels.pointwise import GATES, GatedCall
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


_DERIVED: Mapping[str, Callable[..., Tensor]] = {
    "silu": torch.ops.aten.silu_backward.grad_input,
    "gelu": torch.ops.aten.gelu_backward.grad_input,
    "gelu_tanh": partial(torch.ops.aten.gelu_backward.grad_input, approximate="tanh"),
}
"""Torch's product of a gradient with the derivative of each function, into `grad_input`."""


class GatedBwdPortableKernel(PortableKernel[GatedCall], GatedBwdInterface):
    """The gradient by torch, in float32 between the two halves of a row."""

    def forward(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Compute the gradient."""
        n, function = self.call.n, GATES[self.call.function]
        derived = _DERIVED[self.call.function]

        def gradient(grad_gate: Tensor, grad_value: Tensor, operands: Iterator[Tensor]) -> None:
            value, gate, grad_out = operands
            torch.mul(grad_out, value, out=grad_gate)
            derived(grad_gate, gate, grad_input=grad_gate)
            function(gate, out=grad_value)
            grad_value.mul_(grad_out)

        grad_x = torch.empty_like(x)
        gate, value = x.split(n, -1)
        by_rows(gradient, grad_x.split(n, -1), [value, gate, grad_out])
        return grad_x
