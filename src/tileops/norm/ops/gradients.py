"""Gradients of norms of rows and of groups; statistics are formed again from the input."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    AdaLayerNormBwdInterface,
    AdaLayerNormBwdPortableKernel,
    AdaLayerNormCall,
    GroupNormBwdCall,
    GroupNormBwdInterface,
    GroupNormBwdPortableKernel,
    RowNormBwdCall,
    RowNormBwdInterface,
    RowNormBwdPortableKernel,
)
from tileops.norm.ops.layout import (
    FLOAT32_EPSILON,
    as_channels,
    as_rows,
    as_vector,
    in_shape,
    in_shape_of,
)

__all__ = [
    "RMSNormBwdOp",
    "LayerNormBwdOp",
    "FusedAddRMSNormBwdOp",
    "FusedAddLayerNormBwdOp",
    "AdaLayerNormBwdOp",
    "AdaLayerNormZeroBwdOp",
    "GroupNormBwdOp",
]


class _RowNormBwdOp(Op):
    """Gradients of a norm of rows, whose statistics are formed again."""

    kernel_types = {"portable": RowNormBwdPortableKernel}
    interfaces = {"row_norm_bwd": RowNormBwdInterface}
    is_centred: ClassVar[bool] = False
    eps: float | None

    def _gradients(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None, grad_sum: Tensor | None, n: int
    ) -> tuple[Tensor, Any, Any]:
        """The gradients of `x`, the weight and the bias, None where there is none."""
        eps = FLOAT32_EPSILON if self.eps is None else self.eps
        facts = (n, eps, self.is_centred, weight is not None, grad_sum is not None, x.dtype)
        kernel = self.kernel_for("row_norm_bwd", RowNormBwdCall(*facts, device=x.device))
        total = None if grad_sum is None else as_rows(grad_sum, n)
        grad_x, *affine = kernel(as_rows(grad_out, n), as_rows(x, n), as_vector(weight), total)
        return (in_shape_of(grad_x, x), *affine)


class RMSNormBwdOp(_RowNormBwdOp):
    """Gradients of `RMSNormFwdOp`: returns `(grad_x, grad_weight)`, the latter None without one.

    Statistics, products and sums are float32 for every dtype and rounded once.

    Source: the derivative of `torch.nn.functional.rms_norm`.
    """

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

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the gradients."""
        n = prod(self.normalized_shape)
        grad_x, grad_weight, _ = self._gradients(grad_out, x, weight, None, n)
        return grad_x, in_shape(grad_weight, self.normalized_shape)


class LayerNormBwdOp(_RowNormBwdOp):
    """Gradients of `LayerNormFwdOp`: returns `(grad_x, grad_weight, grad_bias)`.

    `grad_weight` is None without a weight. Statistics, products and sums are float32 for every
    dtype and rounded once.

    Source: the derivative of `torch.nn.functional.layer_norm`.
    """

    is_centred = True

    def __init__(
        self, normalized_shape: Sequence[int], eps: float = 1e-5, *, target: str | None = None
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Compute the gradients."""
        n = prod(self.normalized_shape)
        grad_x, *affine = self._gradients(grad_out, x, weight, None, n)
        grad_weight, grad_bias = (in_shape(part, self.normalized_shape) for part in affine)
        return grad_x, grad_weight, grad_bias


class FusedAddRMSNormBwdOp(_RowNormBwdOp):
    """Gradients of `FusedAddRMSNormFwdOp`: returns `(grad_x, grad_residual, grad_weight)`.

    Both addends have the same gradient, that of the norm plus that of `residual_out`. Sums are
    float32 for every dtype and rounded once.

    Source: the derivative of the forward op.
    """

    def __init__(self, eps: float = 1e-6, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, grad_out: Tensor, grad_residual_out: Tensor, residual_out: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        n = weight.shape[0]
        grad, grad_weight, _ = self._gradients(grad_out, residual_out, weight, grad_residual_out, n)
        return grad, grad.clone(), grad_weight


class FusedAddLayerNormBwdOp(_RowNormBwdOp):
    """Gradients of `FusedAddLayerNormFwdOp`: of both addends, the weight and the bias.

    Both addends have the same gradient, that of the norm plus that of `residual_out`. Sums are
    float32 for every dtype and rounded once.

    Source: the derivative of the forward op.
    """

    is_centred = True

    def __init__(self, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, grad_out: Tensor, grad_residual_out: Tensor, residual_out: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        n = weight.shape[0]
        grad, grad_weight, grad_bias = self._gradients(
            grad_out, residual_out, weight, grad_residual_out, n
        )
        return grad, grad.clone(), grad_weight, grad_bias


class _AdaLayerNormBwdOp(Op):
    """Gradients of a layer norm with an affine map for each element."""

    kernel_types = {"portable": AdaLayerNormBwdPortableKernel}
    interfaces = {"ada_layer_norm_bwd": AdaLayerNormBwdInterface}

    def __init__(self, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def _gradients(
        self,
        grad_out: Tensor,
        x: Tensor,
        scale: Tensor,
        shift: Tensor | None,
        gate: Tensor | None,
    ) -> list[Any]:
        """The gradients of `x`, the scale, the shift and the gate, None where there is none."""
        n = x.shape[-1]
        call = AdaLayerNormCall(n, self.eps, gate is not None, x.dtype, device=x.device)
        parts = (grad_out, x, scale, shift, gate)
        rows = (None if part is None else as_rows(part, n) for part in parts)
        found = self.kernel_for("ada_layer_norm_bwd", call)(*rows)
        return [None if part is None else in_shape_of(part, x) for part in found]


class AdaLayerNormBwdOp(_AdaLayerNormBwdOp):
    """Gradients of `AdaLayerNormFwdOp`: returns `(grad_x, grad_scale, grad_shift)`.

    Statistics and products are float32 for every dtype and rounded once. Source: the derivative of
    the forward op.
    """

    def forward(self, grad_out: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        grad_x, grad_scale, grad_shift, _ = self._gradients(grad_out, x, scale, None, None)
        return grad_x, grad_scale, grad_shift


class AdaLayerNormZeroBwdOp(_AdaLayerNormBwdOp):
    """Gradients of `AdaLayerNormZeroFwdOp`: of `x`, the scale, the shift and the gate.

    Statistics and products are float32 for every dtype and rounded once. Source: the derivative of
    the forward op.
    """

    def forward(
        self, grad_out: Tensor, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        grad_x, grad_scale, grad_shift, grad_gate = self._gradients(grad_out, x, scale, shift, gate)
        return grad_x, grad_scale, grad_shift, grad_gate


class GroupNormBwdOp(Op):
    """Gradients of `GroupNormFwdOp`: returns `(grad_x, grad_weight, grad_bias)`.

    `grad_weight` is None without a weight. Statistics, products and sums are float32 for every
    dtype and rounded once.

    Source: the derivative of `torch.nn.functional.group_norm`.
    """

    kernel_types = {"portable": GroupNormBwdPortableKernel}
    interfaces = {"group_norm_bwd": GroupNormBwdInterface}

    def __init__(self, num_groups: int, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.num_groups = num_groups
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Compute the gradients."""
        facts = (self.num_groups, self.eps, weight is not None, x.dtype)
        kernel = self.kernel_for("group_norm_bwd", GroupNormBwdCall(*facts, device=x.device))
        found = kernel(as_channels(grad_out), as_channels(x), as_vector(weight))
        grad_x, grad_weight, grad_bias = found
        return grad_x.view(x.shape), grad_weight, grad_bias
