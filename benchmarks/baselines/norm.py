"""Norms as other libraries have them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "RMSNormFwdOp")
def rms_norm(op: Any, x: Tensor, weight: Tensor | None) -> Tensor:
    # Without eps torch takes that of x's dtype, the op float32's in which both compute.
    eps = 2.0**-23 if op.eps is None else op.eps
    return F.rms_norm(x, op.normalized_shape, weight, eps)


@baseline("torch", "FusedAddRMSNormFwdOp")
def fused_add_rms_norm(op: Any, x: Tensor, residual: Tensor, weight: Tensor) -> Any:
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, op.eps), total


@baseline("torch", "LayerNormFwdOp")
def layer_norm(op: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.layer_norm(x, op.normalized_shape, weight, bias, op.eps)


@baseline("torch", "FusedAddLayerNormFwdOp")
def fused_add_layer_norm(op: Any, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Any:
    total = x + residual
    return F.layer_norm(total, weight.shape, weight, bias, op.eps), total


@baseline("torch", "AdaLayerNormFwdOp")
def ada_layer_norm(op: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=op.eps) * scale + shift


@baseline("torch", "AdaLayerNormZeroFwdOp")
def ada_layer_norm_zero(op: Any, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor) -> Tensor:
    return gate * (F.layer_norm(x, x.shape[-1:], eps=op.eps) * scale + shift)


@baseline("torch", "BatchNormFwdOp")
def batch_norm(op: Any, x: Tensor, *state: Tensor | None) -> Tensor:
    return F.batch_norm(x, *state, op.training, op.momentum, op.eps)


@baseline("torch", "GroupNormFwdOp")
def group_norm(op: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.group_norm(x, op.num_groups, weight, bias, op.eps)


@baseline("torch", "InstanceNormFwdOp")
def instance_norm(op: Any, x: Tensor, *state: Tensor | None) -> Tensor:
    if op.use_input_stats and state[0] is not None and x.dtype.itemsize < 4:
        raise NotImplementedError("torch rounds running statistics to the dtype of the input")
    return F.instance_norm(x, *state, op.use_input_stats, op.momentum, op.eps)


@baseline("torch", "FusedAddRMSNormPerTokenQuantFwdOp")
def fused_add_rms_norm_quant(op: Any, x: Tensor, residual: Tensor, weight: Tensor) -> Any:
    total = x + residual
    y = F.rms_norm(total.float(), weight.shape, weight.float(), op.eps)
    whole = op.quant_dtype is torch.int8
    largest = 127 if whole else 448
    amax = y.abs().amax(-1, keepdim=True)
    if op.scale_ub is not None:
        amax = amax.clamp(max=op.scale_ub)
    scale = torch.where(amax == 0, 1.0, amax / largest)
    quotient = y / scale
    codes = quotient.round().clamp(-128, 127) if whole else quotient.clamp(-448, 448)
    return codes.to(op.quant_dtype), scale, total


@baseline("liger", "RMSNormFwdOp")
def liger_rms_norm(op: Any, x: Tensor, weight: Tensor | None) -> Tensor:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    if weight is None or len(op.normalized_shape) != 1:
        raise NotImplementedError("liger has no RMSNorm without a weight or over several axes")
    eps = 2.0**-23 if op.eps is None else op.eps
    return LigerRMSNormFunction.apply(x, weight, eps)


@baseline("liger", "LayerNormFwdOp")
def liger_layer_norm(op: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    if weight is None or bias is None or len(op.normalized_shape) != 1:
        raise NotImplementedError("liger has no LayerNorm without weight and bias")
    return LigerLayerNormFunction.apply(x, weight, bias, op.eps)


@baseline("liger", "FusedAddRMSNormFwdOp")
def liger_fused_add_rms_norm(op: Any, x: Tensor, residual: Tensor, weight: Tensor) -> Any:
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    return LigerFusedAddRMSNormFunction.apply(x, residual, weight, op.eps)
