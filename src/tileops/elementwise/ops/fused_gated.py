"""Gated activations: gate in the left half of each row, value in the right.

Both factors are float32 and the product is rounded once.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from tileops._core.op import Op
from tileops.elementwise.kernels import (
    GatedCall,
    GatedFwdInterface,
    GatedPortableKernel,
    GatedTileKernel,
)

__all__ = [
    "SiluAndMulFwdOp",
    "GeluAndMulFwdOp",
    "GeluTanhAndMulFwdOp",
]


class _GatedOp(Op):
    """`function(x[:, :N]) * x[:, N:]`."""

    kernel_types = {"tile": GatedTileKernel, "portable": GatedPortableKernel}
    interfaces = {"gated": GatedFwdInterface}
    function: ClassVar[str]

    def forward(self, x: Tensor) -> Tensor:
        """Gate each row of `x`."""
        call = GatedCall(self.function, x.shape[1] // 2, x.dtype, device=x.device)
        return self.kernel_for("gated", call)(x.contiguous())


class SiluAndMulFwdOp(_GatedOp):
    """`silu(x[:, :N]) * x[:, N:]`. Source: FlashInfer's `silu_and_mul`."""

    function = "silu"


class GeluAndMulFwdOp(_GatedOp):
    """`gelu(x[:, :N]) * x[:, N:]`. Source: FlashInfer's `gelu_and_mul`."""

    function = "gelu"


class GeluTanhAndMulFwdOp(_GatedOp):
    """`gelu(x[:, :N]) * x[:, N:]` by the tanh approximation.

    Source: FlashInfer's `gelu_tanh_and_mul`.
    """

    function = "gelu_tanh"
