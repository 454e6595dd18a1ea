"""Rotary embeddings in torch, with tables of cosines and sines made beforehand."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tileops.bench.baselines import baseline


def plain(op: Any, width: int, device: torch.device) -> Tensor:
    """The frequency of each pair."""
    return op.base ** (-torch.arange(0, width, 2, device=device).double() / width)


def llama31(op: Any, width: int, device: torch.device) -> Tensor:
    """Long waves divided by the scale, those in between blended."""
    frequency = plain(op, width, device)
    wave = 2 * math.pi / frequency
    share = op.original_max_position / wave - op.low_freq_factor
    share = (share / (op.high_freq_factor - op.low_freq_factor)).clamp(0, 1)
    return frequency * (share + (1 - share) / op.scale_factor)


def tables(op: Any, x: Tensor, frequency: Tensor, amplitude: float = 1.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position, kept with the op: a model makes them once."""
    kept: dict[Any, Any] = vars(op).setdefault("_baseline_tables", {})
    key = x.shape, x.device
    if key not in kept:
        length = x.shape[0 if x.dim() == 2 else 1]
        angle = torch.arange(length, device=x.device)[:, None] * frequency
        parts = (angle.cos() * amplitude).float(), (angle.sin() * amplitude).float()
        kept[key] = parts if x.dim() == 2 else tuple(part[:, None] for part in parts)
    found: tuple[Tensor, Tensor] = kept[key]
    return found


def rotated(x: Tensor, cos: Tensor, sin: Tensor, layout: str = "neox") -> Tensor:
    """Pairs turned in float32."""
    if layout == "neox":
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
    a, b = x.float()[..., ::2], x.float()[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)


@baseline("torch", "RoPEFwdOp")
def rope(op: Any, x: Tensor) -> Tensor:
    cos, sin = tables(op, x, plain(op, x.shape[-1], x.device))
    return rotated(x, cos, sin, op.rope_layout)


@baseline("torch", "RoPEBwdOp")
def rope_backward(op: Any, grad: Tensor) -> Tensor:
    cos, sin = tables(op, grad, plain(op, grad.shape[-1], grad.device))
    return rotated(grad, cos, -sin, op.rope_layout)


@baseline("torch", "RoPELlama31FwdOp")
def rope_llama31(op: Any, x: Tensor) -> Tensor:
    return rotated(x, *tables(op, x, llama31(op, x.shape[-1], x.device)))


@baseline("torch", "RoPELlama31BwdOp")
def rope_llama31_backward(op: Any, grad: Tensor) -> Tensor:
    cos, sin = tables(op, grad, llama31(op, grad.shape[-1], grad.device))
    return rotated(grad, cos, -sin)


@baseline("torch", "YaRNFwdOp")
def yarn(op: Any, x: Tensor) -> Tensor:
    width = x.shape[-1]
    ends = [
        width * math.log(op.original_max_position / (2 * math.pi * turns)) / 2 / math.log(op.base)
        for turns in (op.beta_fast, op.beta_slow)
    ]
    first, last = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), width - 1)
    ramp = (torch.arange(width // 2, device=x.device) - first) / max(last - first, 0.001)
    share = ramp.clamp(0, 1)
    frequency = plain(op, width, x.device) * (1 - share + share / op.scale)
    amplitude = op.attn_factor * (0.1 * math.log(op.scale) + 1 if op.scale > 1 else 1)
    return rotated(x, *tables(op, x, frequency, amplitude))


@baseline("torch", "LongRoPEFwdOp")
def long_rope(op: Any, x: Tensor) -> Tensor:
    frequency, amplitude = plain(op, x.shape[-1], x.device), 1.0
    if op.rescale_factors is not None:
        frequency = frequency / op.rescale_factors.to(x.device)
    if op.max_position_embeddings > op.original_max_position_embeddings:
        longer = math.log(op.max_position_embeddings / op.original_max_position_embeddings)
        amplitude = math.sqrt(1 + longer / math.log(op.original_max_position_embeddings))
    return rotated(x, *tables(op, x, frequency, amplitude))


@baseline("torch", "RoPENeoxPositionIdsFwdOp")
def rope_positions(op: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    width = x.shape[-1] if op.rotary_dim is None else op.rotary_dim
    kept: dict[Any, Any] = vars(op).setdefault("_baseline_tables", {})
    if x.device not in kept:
        positions = torch.arange(op.max_position, device=x.device)
        angle = positions[:, None] * plain(op, width, x.device)
        kept[x.device] = angle.cos().float(), angle.sin().float()
    cos, sin = (table[position_ids][:, None] for table in kept[x.device])
    turned = rotated(x[..., :width], cos, sin)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)
