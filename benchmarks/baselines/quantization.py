"""Codes and scales in plain torch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline

BLOCK = 128


def int8(runs: Tensor) -> tuple[Tensor, Tensor]:
    """Codes of runs along the last axis, and their scales."""
    amax = runs.abs().amax(-1, keepdim=True)
    scale = torch.where(amax > 0, amax / 127, 1.0)
    return (runs / scale).round().clamp(-127, 127).to(torch.int8), scale[..., 0]


def in_blocks(x: Tensor) -> Tensor:
    """Rows cut into runs of 128, the last filled with zeros."""
    return F.pad(x, (0, -x.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))


@baseline("torch", "FP8QuantFwdOp")
def fp8(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.float()
    scale = wide.abs().amax(-1).clamp(min=1e-4) / 448
    return scale, (wide / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)


@baseline("torch", "INT8QuantPerTensorFwdOp")
def int8_per_tensor(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    codes, scale = int8(x.float().flatten())
    return codes.view(x.shape), scale.view(1)


@baseline("torch", "INT8QuantPerChannelFwdOp")
def int8_per_channel(op: Any, w: Tensor) -> tuple[Tensor, Tensor]:
    return int8(w.float())


@baseline("torch", "INT8QuantPerBlockFwdOp")
def int8_per_block(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    codes, scale = int8(in_blocks(x.float()))
    return codes.flatten(1)[:, : x.shape[1]].contiguous(), scale


@baseline("torch", "SmoothQuantFwdOp")
def smooth(op: Any, x: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    return int8(x.float() / factors)


@baseline("torch", "INT8DequantPerTensorFwdOp")
def int8_back_per_tensor(op: Any, q: Tensor, scale: Tensor) -> Tensor:
    return (q * scale).to(op.out_dtype)


@baseline("torch", "INT8DequantPerChannelFwdOp")
def int8_back_per_channel(op: Any, q: Tensor, scale: Tensor) -> Tensor:
    return (q * scale[:, None]).to(op.out_dtype)


@baseline("torch", "INT8DequantPerBlockFwdOp")
def int8_back_per_block(op: Any, q: Tensor, scale: Tensor) -> Tensor:
    wide = in_blocks(q) * scale[..., None]
    return wide.flatten(1)[:, : q.shape[1]].to(op.out_dtype)
