"""Gated activations: gate in the left half of each row, value in the right.

Both factors are float32 and the product is rounded once, in gradients as in results.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from tileops._core.op import Op
from tileops.elementwise.kernels import (
    GatedBwdInterface,
    GatedBwdPortableKernel,
    GatedCall,
    GatedFwdInterface,
    GatedPortableKernel,
    GatedTileKernel,
)

__all__ = [
    "SiluAndMulFwdOp",
    "SiluAndMulBwdOp",
    "GeluAndMulFwdOp",
    "GeluAndMulBwdOp",
    "GeluTanhAndMulFwdOp",
    "GeluTanhAndMulBwdOp",
]


class _GatedOp(Op):
    """`function(x[:, :N]) * x[:, N:]`."""

    kernel_types = {"tile": GatedTileKernel, "portable": GatedPortableKernel}
    interfaces = {"gated": GatedFwdInterface}
    function: ClassVar[str]

    def forward(self, x: Tensor) -> Tensor:
        """Gate each row of `x`."""
        kernel = self.kernel_for_fields(
            "gated", GatedCall, x.device, self.function, x.shape[1] // 2, x.dtype
        )
        return kernel(x.contiguous())


class SiluAndMulFwdOp(_GatedOp):
    """SwiGLU: `silu(x[:, :N]) * x[:, N:]`; the caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `silu_and_mul`.
    """

    function = "silu"


class GeluAndMulFwdOp(_GatedOp):
    """GeGLU: `gelu(x[:, :N]) * x[:, N:]`; the caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `gelu_and_mul`.
    """

    function = "gelu"


class GeluTanhAndMulFwdOp(_GatedOp):
    """GeGLU by the tanh approximation: `gelu(x[:, :N]) * x[:, N:]`.

    The caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `gelu_tanh_and_mul`.
    """

    function = "gelu_tanh"


class _GatedBwdOp(Op):
    """Gradient of `function(x[:, :N]) * x[:, N:]`."""

    kernel_types = {"portable": GatedBwdPortableKernel}
    interfaces = {"gated_bwd": GatedBwdInterface}
    function: ClassVar[str]

    def forward(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Compute the gradient of `x`."""
        kernel = self.kernel_for_fields(
            "gated_bwd", GatedCall, x.device, self.function, x.shape[1] // 2, x.dtype
        )
        return kernel(grad_out.contiguous(), x.contiguous())


class SiluAndMulBwdOp(_GatedBwdOp):
    """Gradient of `SiluAndMulFwdOp`. Source: the derivative of `silu(gate) * value`."""

    function = "silu"


class GeluAndMulBwdOp(_GatedBwdOp):
    """Gradient of `GeluAndMulFwdOp`. Source: the derivative of `gelu(gate) * value`."""

    function = "gelu"


class GeluTanhAndMulBwdOp(_GatedBwdOp):
    """Gradient of `GeluTanhAndMulFwdOp`. Source: the derivative of its tanh approximation."""

    function = "gelu_tanh"
