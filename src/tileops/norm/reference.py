"""References of the norm family: float64 from the inputs as given, rounded once at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None = None,
) -> Tensor:
    """`x / sqrt(mean(x²) + eps) * weight` over the trailing axes; `eps=None` is 2⁻²³."""
    axes = tuple(range(-len(normalized_shape), 0))
    wide = x.double()
    square = wide.square().mean(axes, keepdim=True)
    result = wide * torch.rsqrt(square + (2.0**-23 if eps is None else eps))
    return (result if weight is None else result * weight.double()).to(x.dtype)


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, *, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """`residual_out = x + residual`, rounded; `output = rms_norm(residual_out) * weight`."""
    residual_out = (x.double() + residual.double()).to(x.dtype)
    return rms_norm(residual_out, weight, normalized_shape=weight.shape, eps=eps), residual_out


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the trailing axes."""
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x.double() - x.double().mean(axes, keepdim=True)
    result = centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)
    if weight is not None:
        result = result * weight.double()
    if bias is not None:
        result = result + bias.double()
    return result.to(x.dtype)


def fused_add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """`residual_out = x + residual`, rounded; `output = layer_norm(residual_out)`."""
    residual_out = (x.double() + residual.double()).to(x.dtype)
    normed = layer_norm(residual_out, weight, bias, normalized_shape=weight.shape, eps=eps)
    return normed, residual_out


def rms_norm_bwd(
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Differentiated by torch."""

    def norm(x: Tensor, weight: Tensor | None) -> Tensor:
        return rms_norm(x, weight, normalized_shape=normalized_shape, eps=eps)

    grad_x, grad_weight = _differentiated(norm, grad_out, x, weight)
    return grad_x, grad_weight


def fused_add_rms_norm_bwd(
    grad_out: Tensor,
    grad_residual_out: Tensor,
    residual_out: Tensor,
    weight: Tensor,
    *,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the norm plus that of the sum, for both addends."""
    wide, grad_weight = rms_norm_bwd(
        grad_out.double(), residual_out.double(), weight, normalized_shape=weight.shape, eps=eps
    )
    grad = (wide + grad_residual_out.double()).to(grad_out.dtype)
    assert grad_weight is not None
    return grad, grad.clone(), grad_weight


def layer_norm_bwd(
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Differentiated by torch; the bias adds up what arrives."""

    def norm(x: Tensor, weight: Tensor | None) -> Tensor:
        return layer_norm(x, weight, normalized_shape=normalized_shape, eps=eps)

    grad_x, grad_weight = _differentiated(norm, grad_out, x, weight)
    count = prod(x.shape[: x.dim() - len(normalized_shape)])
    grad_bias = grad_out.double().reshape(count, *normalized_shape).sum(0)
    return grad_x, grad_weight, grad_bias.to(x.dtype)


def fused_add_layer_norm_bwd(
    grad_out: Tensor,
    grad_residual_out: Tensor,
    residual_out: Tensor,
    weight: Tensor,
    *,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient of the norm plus that of the sum, for both addends."""
    wide, grad_weight, grad_bias = layer_norm_bwd(
        grad_out.double(), residual_out.double(), weight, normalized_shape=weight.shape, eps=eps
    )
    grad = (wide + grad_residual_out.double()).to(grad_out.dtype)
    assert grad_weight is not None
    return grad, grad.clone(), grad_weight, grad_bias.to(weight.dtype)


def ada_layer_norm_bwd(
    grad_out: Tensor, x: Tensor, scale: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """Differentiated by torch."""
    given = (x, scale, torch.zeros_like(x))
    return _gradients_of_all(partial(ada_layer_norm, eps=eps), grad_out, given)


def ada_layer_norm_zero_bwd(
    grad_out: Tensor, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """Differentiated by torch."""
    given = (x, scale, shift, gate)
    return _gradients_of_all(partial(ada_layer_norm_zero, eps=eps), grad_out, given)


def group_norm_bwd(
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Differentiated by torch; the bias adds up what arrives."""

    def norm(x: Tensor, weight: Tensor | None) -> Tensor:
        return group_norm(x, weight, num_groups=num_groups, eps=eps)

    grad_bias = grad_out.double().sum((0, *range(2, x.dim()))).to(x.dtype)
    if not x.numel():
        return x.clone(), None if weight is None else torch.zeros_like(weight), grad_bias
    return *_differentiated(norm, grad_out, x, weight), grad_bias


def _gradients_of_all(
    function: Callable[..., Tensor], grad_out: Tensor, tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of all arguments in float64, rounded once."""
    leaves = [x.double().requires_grad_() for x in tensors]
    with torch.enable_grad():
        found = function(*leaves)
    gradients = torch.autograd.grad(found, leaves, grad_out.double())
    return tuple(g.to(x.dtype) for g, x in zip(gradients, tensors, strict=True))


def _differentiated(
    function: Callable[[Tensor, Tensor | None], Tensor],
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of both arguments in float64, rounded once."""
    leaf = x.double().requires_grad_()
    scale = None if weight is None else weight.double().requires_grad_()
    with torch.enable_grad():
        found = function(leaf, scale)
    leaves = [leaf] if scale is None else [leaf, scale]
    grad_x, *grad_weight = torch.autograd.grad(found, leaves, grad_out.double())
    if weight is None:
        return grad_x.to(x.dtype), None
    return grad_x.to(x.dtype), grad_weight[0].to(weight.dtype)


def ada_layer_norm(x: Tensor, scale: Tensor, shift: Tensor, *, eps: float = 1e-5) -> Tensor:
    """`layer_norm(x) * scale + shift`."""
    return ada_layer_norm_zero(x, scale, shift, torch.ones_like(x), eps=eps)


def ada_layer_norm_zero(
    x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor, *, eps: float = 1e-5
) -> Tensor:
    """`gate * (layer_norm(x) * scale + shift)`."""
    normed = layer_norm(x.double(), normalized_shape=x.shape[-1:], eps=eps)
    return (gate.double() * (normed * scale.double() + shift.double())).to(x.dtype)


def fused_add_rms_norm_per_token_quant(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    *,
    quant_dtype: torch.dtype = torch.float8_e4m3fn,
    eps: float = 1e-6,
    scale_ub: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm of the rounded sum, each row divided by its largest magnitude over `qmax`."""
    quotient, scale, total = _quotients(x, residual, weight, quant_dtype, eps, scale_ub)
    return _codes(quotient, quant_dtype), scale.float(), total


def fused_add_rms_norm_per_token_quant_canonical(
    results: tuple[Tensor, ...],
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    *,
    quant_dtype: torch.dtype = torch.float8_e4m3fn,
    eps: float = 1e-6,
    scale_ub: float | None = None,
) -> tuple[Tensor, ...]:
    """Either code of a number halfway between two, as far as float32 tells, becomes the nearer."""
    quotient, *_ = _quotients(x, residual, weight, quant_dtype, eps, scale_ub)
    low, code, high = (
        _codes(quotient * share, quant_dtype).view(torch.uint8)
        for share in (1 - 2.0**-16, 1, 1 + 2.0**-16)
    )
    found = results[0].view(torch.uint8)
    return torch.where((found == low) | (found == high), code, found), *results[1:]


def _quotients(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    quant_dtype: torch.dtype,
    eps: float,
    scale_ub: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What is rounded to codes, the scale of each row, and the rounded sum."""
    total = (x.double() + residual.double()).to(x.dtype)
    y = rms_norm(total.double(), weight, normalized_shape=weight.shape, eps=eps)
    amax = y.abs().amax(-1, keepdim=True)
    if scale_ub is not None:
        amax = amax.clamp(max=scale_ub)
    scale = torch.where(amax == 0, 1.0, amax / (127 if quant_dtype is torch.int8 else 448))
    return y / scale, scale, total


def _codes(quotient: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype is torch.int8:
        return quotient.round().clamp(-128, 127).to(dtype)
    return quotient.clamp(-448, 448).float().to(dtype)


def fused_qk_norm_rope(
    qkv: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    cos_sin_cache: Tensor,
    positions: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int,
    eps: float = 1e-6,
    rope_layout: str = "neox",
) -> None:
    """Heads normalised, then rotated as complex numbers; written in place."""
    width = q_weight.shape[0]
    table = cos_sin_cache[positions].double()
    pairs = table.shape[1] // 2
    turns = torch.complex(table[:, :pairs], table[:, pairs:])
    for head in range(num_heads + num_kv_heads):
        weight = q_weight if head < num_heads else k_weight
        part = qkv[:, head * width : (head + 1) * width]
        normed = rms_norm(part.double(), weight, normalized_shape=(width,), eps=eps)
        turned, rest = normed[:, : 2 * pairs], normed[:, 2 * pairs :]
        if rope_layout == "neox":
            result = torch.complex(turned[:, :pairs], turned[:, pairs:]) * turns
            turned = torch.cat((result.real, result.imag), -1)
        else:
            result = torch.complex(turned[:, ::2], turned[:, 1::2]) * turns
            turned = torch.view_as_real(result).flatten(1)
        part.copy_(torch.cat((turned, rest), -1))


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel over batch and space; the running statistics are written in training."""
    axes = (0, *range(2, x.dim()))
    return _running_norm(x, axes, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample over space; running statistics average over the batch."""
    axes = tuple(range(2, x.dim()))
    return _running_norm(
        x, axes, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _running_norm(
    x: Tensor,
    axes: tuple[int, ...],
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    uses_input: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Statistics over `axes` or the running ones; an empty input changes nothing."""
    wide = x.double()
    if x.numel() == 0:
        return x.clone()
    if uses_input:
        mean = wide.mean(axes, keepdim=True)
        var = (wide - mean).square().mean(axes, keepdim=True)
        count = x.numel() // mean.numel()
        for running, batch in ((running_mean, mean), (running_var, var * count / (count - 1))):
            if running is not None:
                average = batch.mean(0).reshape(-1)
                running.copy_((1 - momentum) * running.double() + momentum * average)
    else:
        mean, var = _per_channel(running_mean, x), _per_channel(running_var, x)
    return _affine((wide - mean) / torch.sqrt(var + eps), weight, bias).to(x.dtype)


def group_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> Tensor:
    """Each group of channels of each sample over channels and space."""
    if x.numel() == 0:
        return x.clone()
    groups = x.double().reshape(x.shape[0], num_groups, -1)
    normed = layer_norm(groups, normalized_shape=groups.shape[-1:], eps=eps)
    return _affine(normed.reshape(x.shape), weight, bias).to(x.dtype)


def batch_norm_bwd(
    grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, the weight and the bias in training."""
    axes = (0, *range(2, x.dim()))
    scale, grad = _per_channel(rstd, x), grad_out.double()
    normed = (x.double() - _per_channel(mean, x)) * scale
    grad_bias, grad_weight = grad.sum(axes), (grad * normed).sum(axes)
    count = max(x.numel() // max(x.shape[1], 1), 1)
    along = _per_channel(grad_bias, x) + normed * _per_channel(grad_weight, x)
    grad_x = (grad - along / count) * _per_channel(weight, x) * scale
    return grad_x.to(x.dtype), grad_weight.float(), grad_bias.float()


def _affine(normed: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """A weight and a bias per channel, where given."""
    if weight is not None:
        normed = normed * _per_channel(weight, normed)
    return normed if bias is None else normed + _per_channel(bias, normed)


def _per_channel(vector: Tensor | None, x: Tensor) -> Tensor:
    """One float64 number per channel, shaped to broadcast against `x`."""
    assert vector is not None
    return vector.double().reshape(-1, *[1] * (x.dim() - 2))
