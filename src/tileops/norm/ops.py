"""Norm ops: each flattens its tensors to rows and hands them to one kernel interface."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    AddRMSNormFwdInterface,
    AddRMSNormPortableKernel,
    LayerNormCall,
    LayerNormFwdInterface,
    LayerNormPortableKernel,
    RMSNormCall,
    RMSNormFwdInterface,
    RMSNormOnChipKernel,
    RMSNormPortableKernel,
    RMSNormStreamingKernel,
)

__all__ = ["RMSNormFwdOp", "FusedAddRMSNormFwdOp", "LayerNormFwdOp"]

FLOAT32_EPSILON = 2.0**-23
"""Machine epsilon of the arithmetic: what `eps=None` means for every input dtype."""


def _rows(x: Tensor, n: int) -> Tensor:
    """`x` as contiguous rows of `n` elements; a view where `x` is contiguous."""
    return x.reshape(-1, n).contiguous()


def _vector(affine: Tensor | None) -> Tensor | None:
    """An affine tensor as one contiguous row, or None."""
    return None if affine is None else affine.reshape(-1).contiguous()


class RMSNormFwdOp(Op):
    """Root-mean-square norm over the trailing axes: `x / sqrt(mean(x²) + eps) * weight`.

    The mean and both products are float32 for every dtype and rounded once. `eps=None` means the
    machine epsilon of that arithmetic, 2⁻²³, also for 16-bit inputs. A row of zeros gives zeros.

    Source: `torch.nn.functional.rms_norm`.
    """

    kernel_types = {
        "on_chip": RMSNormOnChipKernel,
        "streaming": RMSNormStreamingKernel,
        "portable": RMSNormPortableKernel,
    }
    interfaces = {"rms_norm": RMSNormFwdInterface}

    def __init__(
        self,
        normalized_shape: Sequence[int],
        eps: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = eps
        super().__init__(target=target)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise the trailing axes of `x`."""
        n = prod(self.normalized_shape)
        eps = FLOAT32_EPSILON if self.eps is None else self.eps
        call = RMSNormCall(n, eps, weight is not None, x.dtype, device=x.device)
        kernel = self.kernel_for("rms_norm", call)
        return kernel(_rows(x, n), _vector(weight)).view(x.shape)


class FusedAddRMSNormFwdOp(Op):
    """Residual addition and RMSNorm: returns `(rms_norm(residual_out) * weight, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `RMSNormFwdOp` applied to it. Nothing is written in place.

    Source: FlashInfer's `fused_add_rmsnorm`, out of place.
    """

    kernel_types = {"portable": AddRMSNormPortableKernel}
    interfaces = {"add_rms_norm": AddRMSNormFwdInterface}

    def __init__(self, eps: float = 1e-6, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add `residual` and normalise the last axis."""
        n = weight.shape[0]
        call = RMSNormCall(n, self.eps, True, x.dtype, device=x.device)
        kernel = self.kernel_for("add_rms_norm", call)
        output, total = kernel(_rows(x, n), _rows(residual, n), weight.contiguous())
        return output.view(x.shape), total.view(x.shape)


class LayerNormFwdOp(Op):
    """Layer norm over the trailing axes: `(x - mean) / sqrt(var + eps) * weight + bias`.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.layer_norm`.
    """

    kernel_types = {"portable": LayerNormPortableKernel}
    interfaces = {"layer_norm": LayerNormFwdInterface}

    def __init__(
        self, normalized_shape: Sequence[int], eps: float = 1e-5, *, target: str | None = None
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Normalise the trailing axes of `x`."""
        n = prod(self.normalized_shape)
        call = LayerNormCall(
            n, self.eps, weight is not None, bias is not None, x.dtype, device=x.device
        )
        kernel = self.kernel_for("layer_norm", call)
        return kernel(_rows(x, n), _vector(weight), _vector(bias)).view(x.shape)
