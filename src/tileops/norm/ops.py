"""Norm ops: each flattens its tensors and hands them to one kernel interface."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    AdaLayerNormCall,
    AdaLayerNormFwdInterface,
    AdaLayerNormPortableKernel,
    AddLayerNormFwdInterface,
    AddLayerNormOnChipKernel,
    AddLayerNormPortableKernel,
    AddLayerNormStreamingKernel,
    AddRMSNormFwdInterface,
    AddRMSNormOnChipKernel,
    AddRMSNormPortableKernel,
    AddRMSNormQuantCall,
    AddRMSNormQuantFwdInterface,
    AddRMSNormQuantPortableKernel,
    AddRMSNormStreamingKernel,
    BatchNormBwdCall,
    BatchNormBwdInterface,
    BatchNormBwdPortableKernel,
    BatchNormFwdInterface,
    BatchNormPortableKernel,
    GroupNormCall,
    GroupNormFwdInterface,
    GroupNormPortableKernel,
    HeadNormRotaryCall,
    HeadNormRotaryFwdInterface,
    HeadNormRotaryPortableKernel,
    InstanceNormFwdInterface,
    InstanceNormPortableKernel,
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
    RowNormBwdCall,
    RowNormBwdInterface,
    RowNormBwdPortableKernel,
    RunningNormCall,
)

__all__ = [
    "RMSNormFwdOp",
    "RMSNormBwdOp",
    "FusedAddRMSNormFwdOp",
    "FusedAddRMSNormBwdOp",
    "LayerNormFwdOp",
    "LayerNormBwdOp",
    "FusedAddLayerNormFwdOp",
    "FusedAddLayerNormBwdOp",
    "AdaLayerNormFwdOp",
    "AdaLayerNormZeroFwdOp",
    "FusedAddRMSNormPerTokenQuantFwdOp",
    "FusedQKNormRoPEFwdOp",
    "BatchNormFwdOp",
    "BatchNormBwdOp",
    "GroupNormFwdOp",
    "InstanceNormFwdOp",
]

FLOAT32_EPSILON = 2.0**-23
"""Machine epsilon of the arithmetic: what `eps=None` means for every input dtype."""


def _rows(x: Tensor, n: int) -> Tensor:
    """`x` as contiguous rows of `n` elements; a view where `x` is contiguous."""
    rows = x if x.ndim == 2 and x.shape[1] == n else x.reshape(-1, n)
    return rows.contiguous()


def _shaped(rows: Tensor, x: Tensor) -> Tensor:
    """Rows in the shape of `x`."""
    return rows if rows.shape == x.shape else rows.view(x.shape)


def _vector(affine: Tensor | None) -> Tensor | None:
    """An affine tensor as one contiguous row, or None."""
    if affine is None:
        return None
    return (affine if affine.ndim == 1 else affine.reshape(-1)).contiguous()


def _in_shape(vector: Tensor | None, shape: Sequence[int]) -> Any:
    """A gradient in the shape of its affine tensor, None where there is none."""
    return None if vector is None else vector.view(tuple(shape))


def _channels(x: Tensor) -> Tensor:
    """`x` as contiguous `[B, C, L]`; a view where `x` is contiguous."""
    return x.reshape(*x.shape[:2], prod(x.shape[2:])).contiguous()


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
        return _shaped(kernel(_rows(x, n), _vector(weight)), x)


class FusedAddRMSNormFwdOp(Op):
    """Residual addition and RMSNorm: returns `(rms_norm(residual_out) * weight, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `RMSNormFwdOp` applied to it. Nothing is written in place.

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
        call = RMSNormCall(n, self.eps, True, x.dtype, device=x.device)
        kernel = self.kernel_for("add_rms_norm", call)
        output, total = kernel(_rows(x, n), _rows(residual, n), weight.contiguous())
        return _shaped(output, x), _shaped(total, x)


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
        call = LayerNormCall(
            n, self.eps, weight is not None, bias is not None, x.dtype, device=x.device
        )
        kernel = self.kernel_for("layer_norm", call)
        return _shaped(kernel(_rows(x, n), _vector(weight), _vector(bias)), x)


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
        call = LayerNormCall(n, self.eps, True, True, x.dtype, device=x.device)
        kernel = self.kernel_for("add_layer_norm", call)
        rows = _rows(x, n), _rows(residual, n)
        output, total = kernel(*rows, weight.contiguous(), bias.contiguous())
        return _shaped(output, x), _shaped(total, x)


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
        total = None if grad_sum is None else _rows(grad_sum, n)
        grad_x, *affine = kernel(_rows(grad_out, n), _rows(x, n), _vector(weight), total)
        return (_shaped(grad_x, x), *affine)


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
        return grad_x, _in_shape(grad_weight, self.normalized_shape)


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
        grad_weight, grad_bias = (_in_shape(part, self.normalized_shape) for part in affine)
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


class _AdaLayerNormOp(Op):
    """Layer norm of the last axis with an affine map for each element."""

    kernel_types = {"portable": AdaLayerNormPortableKernel}
    interfaces = {"ada_layer_norm": AdaLayerNormFwdInterface}

    def __init__(self, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.eps = eps
        super().__init__(target=target)

    def _normalise(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """The norm, mapped and perhaps gated."""
        n = x.shape[-1]
        call = AdaLayerNormCall(n, self.eps, gate is not None, x.dtype, device=x.device)
        kernel = self.kernel_for("ada_layer_norm", call)
        rows = (None if part is None else _rows(part, n) for part in (x, scale, shift, gate))
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


class FusedAddRMSNormPerTokenQuantFwdOp(Op):
    """Residual addition, RMSNorm and quantisation by row: returns `(q, scale, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised; the norm
    `y` stays float32. `scale = amax(|y|) / qmax`, where `qmax` is 448 for float8 and 127 for int8
    and `scale_ub` bounds the amax; a row of zeros has the scale 1. `q = y / scale`, saturated.

    Source: vLLM's `rms_norm_dynamic_per_token_quant`.
    """

    kernel_types = {"portable": AddRMSNormQuantPortableKernel}
    interfaces = {"add_rms_norm_quant": AddRMSNormQuantFwdInterface}

    def __init__(
        self,
        quant_dtype: torch.dtype = torch.float8_e4m3fn,
        eps: float = 1e-6,
        scale_ub: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.quant_dtype = quant_dtype
        self.eps = eps
        self.scale_ub = scale_ub
        super().__init__(target=target)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add `residual`, normalise and quantise the last axis."""
        n = weight.shape[0]
        call = AddRMSNormQuantCall(
            n, self.eps, self.scale_ub, x.dtype, self.quant_dtype, device=x.device
        )
        kernel = self.kernel_for("add_rms_norm_quant", call)
        q, scale, total = kernel(_rows(x, n), _rows(residual, n), weight.contiguous())
        return q.view(x.shape), scale.view(*x.shape[:-1], 1), total.view(x.shape)


class FusedQKNormRoPEFwdOp(Op):
    """RMSNorm of every query and key head, then rotary embedding of its first channels, in place.

    Rows hold queries, keys and values of all heads; values are left alone. Row `positions[n]` of
    the table holds cosines in its left half and sines in its right, for as many channels as it is
    wide. Norm and rotation are float32 and rounded once. Positions are the caller's duty.

    Source: the attention of Qwen3 and GLM-4.5.
    """

    kernel_types = {"portable": HeadNormRotaryPortableKernel}
    interfaces = {"head_norm_rotary": HeadNormRotaryFwdInterface}

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        eps: float = 1e-6,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.eps = eps
        self.rope_layout = rope_layout
        super().__init__(target=target)

    def forward(
        self,
        qkv: Tensor,
        q_weight: Tensor,
        k_weight: Tensor,
        cos_sin_cache: Tensor,
        positions: Tensor,
    ) -> None:
        """Normalise and rotate the heads of `qkv`."""
        call = HeadNormRotaryCall(
            self.num_heads,
            self.num_kv_heads,
            q_weight.shape[0],
            cos_sin_cache.shape[1],
            self.eps,
            self.rope_layout,
            qkv.dtype,
            cos_sin_cache.dtype,
            device=qkv.device,
        )
        others = (q_weight, k_weight, cos_sin_cache, positions)
        kernel = self.kernel_for("head_norm_rotary", call)
        kernel(qkv, *(tensor.contiguous() for tensor in others))


class _RunningNormOp(Op):
    """Norm of channels by the input's or by running statistics, as the parameter `choice` says."""

    choice: ClassVar[str]
    momentum: float
    eps: float

    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Normalise the channels of `x`."""
        call = RunningNormCall(
            getattr(self, self.choice),
            self.momentum,
            self.eps,
            running_mean is not None,
            weight is not None,
            bias is not None,
            x.dtype,
            device=x.device,
        )
        (interface,) = self.interfaces
        kernel = self.kernel_for(interface, call)
        affine = _vector(weight), _vector(bias)
        return kernel(_channels(x), running_mean, running_var, *affine).view(x.shape)


class BatchNormFwdOp(_RunningNormOp):
    """Norm of each channel over batch and space, by its own or by running statistics.

    In training the biased variance normalises, and running statistics, where given, are updated in
    place: `(1 - momentum) * running + momentum * batch`, with the unbiased variance. An empty
    batch leaves them as they are. Evaluation writes nothing. Statistics are float32 for every
    dtype, of centred values; the result is rounded once.

    Source: `torch.nn.functional.batch_norm`.
    """

    kernel_types = {"portable": BatchNormPortableKernel}
    interfaces = {"batch_norm": BatchNormFwdInterface}
    choice = "training"

    def __init__(
        self,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
        *,
        target: str | None = None,
    ) -> None:
        self.training = training
        self.momentum = momentum
        self.eps = eps
        super().__init__(target=target)


class BatchNormBwdOp(Op):
    """Gradients of batch norm in training: returns `(grad_x, grad_weight, grad_bias)`.

    `mean` and `rstd = 1 / sqrt(var + eps)`, with the biased variance, are those of the forward
    pass. Sums are float32.

    Source: `aten.native_batch_norm_backward`.
    """

    kernel_types = {"portable": BatchNormBwdPortableKernel}
    interfaces = {"batch_norm_bwd": BatchNormBwdInterface}

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        kernel = self.kernel_for("batch_norm_bwd", BatchNormBwdCall(x.dtype, device=x.device))
        statistics = (vector.contiguous() for vector in (weight, mean, rstd))
        grad_x, grad_weight, grad_bias = kernel(_channels(grad_out), _channels(x), *statistics)
        return grad_x.view(x.shape), grad_weight, grad_bias


class GroupNormFwdOp(Op):
    """Norm of each group of channels of each sample, with an affine map per channel.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.group_norm`.
    """

    kernel_types = {"portable": GroupNormPortableKernel}
    interfaces = {"group_norm": GroupNormFwdInterface}

    def __init__(self, num_groups: int, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.num_groups = num_groups
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Normalise the groups of `x`."""
        call = GroupNormCall(
            self.num_groups,
            self.eps,
            weight is not None,
            bias is not None,
            x.dtype,
            device=x.device,
        )
        kernel = self.kernel_for("group_norm", call)
        return kernel(_channels(x), _vector(weight), _vector(bias)).view(x.shape)


class InstanceNormFwdOp(_RunningNormOp):
    """Norm of each channel of each sample over space, by its own or by running statistics.

    Where the input's statistics are used, running ones are updated in place as `BatchNormFwdOp`
    does, from the average of the samples' statistics.

    Source: `torch.nn.functional.instance_norm`.
    """

    kernel_types = {"portable": InstanceNormPortableKernel}
    interfaces = {"instance_norm": InstanceNormFwdInterface}
    choice = "use_input_stats"

    def __init__(
        self,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
        *,
        target: str | None = None,
    ) -> None:
        self.use_input_stats = use_input_stats
        self.momentum = momentum
        self.eps = eps
        super().__init__(target=target)
