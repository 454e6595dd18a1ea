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


@baseline("torch", "LayerNormBwdOp")
def layer_norm_backward(op: Any, grad: Tensor, x: Tensor, weight: Tensor | None) -> Any:
    """With the statistics that training keeps made anew, as the op makes them."""
    if not x.is_cuda and x.dtype.itemsize < 4:
        raise NotImplementedError("torch rounds the statistics of a norm to 16 bits on the CPU")
    shape = list(op.normalized_shape)
    axes = tuple(range(-len(shape), 0))
    var, mean = torch.var_mean(x.float(), axes, correction=0, keepdim=True)
    rstd = torch.rsqrt(var + op.eps)
    bias = torch.empty(shape, dtype=x.dtype, device=x.device)
    found = torch.ops.aten.native_layer_norm_backward(
        grad, x, shape, mean, rstd, weight, bias, [True, weight is not None, True]
    )
    return tuple(found)


@baseline("torch", "RMSNormBwdOp")
def rms_norm_backward(op: Any, grad: Tensor, x: Tensor, weight: Tensor | None) -> Any:
    axes = tuple(range(-len(op.normalized_shape), 0))
    wide, arriving = x.float(), grad.float()
    rstd = torch.rsqrt(wide.square().mean(axes, keepdim=True) + (op.eps or 2.0**-23))
    normed = wide * rstd
    scaled = arriving if weight is None else arriving * weight.float()
    grad_x = rstd * (scaled - normed * (scaled * normed).mean(axes, keepdim=True))
    if weight is None:
        return grad_x.to(x.dtype), None
    grad_weight = (arriving * normed).flatten(0, -len(axes) - 1).sum(0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype)


@baseline("torch", "FusedQKNormRoPEFwdOp")
def qk_norm_rope(
    op: Any, qkv: Tensor, q_weight: Tensor, k_weight: Tensor, table: Tensor, positions: Tensor
) -> None:
    width, heads = q_weight.shape[0], op.num_heads + op.num_kv_heads
    weights = torch.cat((q_weight.expand(op.num_heads, -1), k_weight.expand(op.num_kv_heads, -1)))
    part = qkv[:, : heads * width].unflatten(1, (heads, width))
    normed = F.rms_norm(part.float(), (width,), None, op.eps) * weights.float()
    cos, sin = table[positions].float()[:, None].chunk(2, -1)
    turned, rest = normed[..., : 2 * cos.shape[-1]], normed[..., 2 * cos.shape[-1] :]
    if op.rope_layout == "neox":
        a, b = turned.chunk(2, -1)
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        a, b = turned[..., ::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    part.copy_(torch.cat((turned, rest), -1))
