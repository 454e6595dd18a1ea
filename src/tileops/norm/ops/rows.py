"""Norms of rows: the trailing axes are flattened, the leading ones too."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    AdaLayerNormCall,
    AdaLayerNormFwdInterface,
    AdaLayerNormOnChipKernel,
    AdaLayerNormPortableKernel,
    AddLayerNormFwdInterface,
    AddLayerNormOnChipKernel,
    AddLayerNormPortableKernel,
    AddLayerNormStreamingKernel,
    AddRMSNormFwdInterface,
    AddRMSNormOnChipKernel,
    AddRMSNormPortableKernel,
    AddRMSNormStreamingKernel,
    LayerNormCall,
    LayerNormFwdInterface,
    LayerNormOnChipKernel,
    LayerNormPortableKernel,
    LayerNormStreamingKernel,
    RMSNormCall,
    RMSNormFwdInterface,
    RMSNormOnChipKernel,
    RMSNormPortableKernel,
    RMSNormStreamingKernel,
)
from tileops.norm.ops.layout import FLOAT32_EPSILON, as_rows, as_vector, in_shape_of

__all__ = [
    "RMSNormFwdOp",
    "FusedAddRMSNormFwdOp",
    "LayerNormFwdOp",
    "FusedAddLayerNormFwdOp",
    "AdaLayerNormFwdOp",
    "AdaLayerNormZeroFwdOp",
]


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
        kernel = self.kernel_for_fields(
            "rms_norm", RMSNormCall, x.device, n, eps, weight is not None, x.dtype
        )
        if x.ndim == 2 and len(self.normalized_shape) == 1:  # Rows and a vector as they are.
            return kernel(x.contiguous(), None if weight is None else weight.contiguous())
        return in_shape_of(kernel(as_rows(x, n), as_vector(weight)), x)


class FusedAddRMSNormFwdOp(Op):
    """Residual addition and RMSNorm: returns `(rms_norm(residual_out) * weight, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `RMSNormFwdOp` of the same `eps` applied to it: left out, it is 1e-6 here and
    2⁻²³ there. Nothing is written in place.

    Source: FlashInfer's `fused_add_rmsnorm`, out of place.
    """

    kernel_types = {
        "on_chip": AddRMSNormOnChipKernel,
        "streaming": AddRMSNormStreamingKernel,
        "portable": AddRMSNormPortableKernel,
    }
    interfaces = {"add_rms_norm": AddRMSNormFwdInterface}

    def __init__(self, eps: float = 1e-6, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add `residual` and normalise the last axis."""
        n = weight.shape[0]
        kernel = self.kernel_for_fields(
            "add_rms_norm", RMSNormCall, x.device, n, self.eps, True, x.dtype
        )
        output, total = kernel(as_rows(x, n), as_rows(residual, n), weight.contiguous())
        return in_shape_of(output, x), in_shape_of(total, x)


class LayerNormFwdOp(Op):
    """Layer norm over the trailing axes: `(x - mean) / sqrt(var + eps) * weight + bias`.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.layer_norm`.
    """

    kernel_types = {
        "on_chip": LayerNormOnChipKernel,
        "streaming": LayerNormStreamingKernel,
        "portable": LayerNormPortableKernel,
    }
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
        fields = n, self.eps, weight is not None, bias is not None, x.dtype
        kernel = self.kernel_for_fields("layer_norm", LayerNormCall, x.device, *fields)
        return in_shape_of(kernel(as_rows(x, n), as_vector(weight), as_vector(bias)), x)


class FusedAddLayerNormFwdOp(Op):
    """Residual addition and layer norm: returns `(layer_norm(residual_out), residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `LayerNormFwdOp` applied to it. Nothing is written in place.

    Source: FlashAttention's fused layer norm, out of place.
    """

    kernel_types = {
        "on_chip": AddLayerNormOnChipKernel,
        "streaming": AddLayerNormStreamingKernel,
        "portable": AddLayerNormPortableKernel,
    }
    interfaces = {"add_layer_norm": AddLayerNormFwdInterface}

    def __init__(self, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add `residual` and normalise the last axis."""
        n = weight.shape[0]
        kernel = self.kernel_for_fields(
            "add_layer_norm", LayerNormCall, x.device, n, self.eps, True, True, x.dtype
        )
        rows = as_rows(x, n), as_rows(residual, n)
        output, total = kernel(*rows, weight.contiguous(), bias.contiguous())
        return in_shape_of(output, x), in_shape_of(total, x)


class _AdaLayerNormOp(Op):
    """Layer norm of the last axis with an affine map for each element."""

    kernel_types = {
        "on_chip": AdaLayerNormOnChipKernel,
        "portable": AdaLayerNormPortableKernel,
    }
    interfaces = {"ada_layer_norm": AdaLayerNormFwdInterface}

    def __init__(self, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def _normalise(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """The norm, mapped and perhaps gated."""
        n = x.shape[-1]
        kernel = self.kernel_for_fields(
            "ada_layer_norm", AdaLayerNormCall, x.device, n, self.eps, gate is not None, x.dtype
        )
        rows = (None if part is None else as_rows(part, n) for part in (x, scale, shift, gate))
        return kernel(*rows).view(x.shape)


class AdaLayerNormFwdOp(_AdaLayerNormOp):
    """`layer_norm(x) * scale + shift` over the last axis; callers of DiT pass `1 + scale`.

    Statistics and products are float32 for every dtype and rounded once.

    Source: Peebles and Xie, "Scalable Diffusion Models with Transformers", 2022.
    """

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """Normalise the last axis of `x`."""
        return self._normalise(x, scale, shift, None)


class AdaLayerNormZeroFwdOp(_AdaLayerNormOp):
    """`gate * (layer_norm(x) * scale + shift)` over the last axis.

    Statistics and products are float32 for every dtype and rounded once.

    Source: Peebles and Xie, "Scalable Diffusion Models with Transformers", 2022.
    """

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor) -> Tensor:
        """Normalise the last axis of `x`."""
        return self._normalise(x, scale, shift, gate)
