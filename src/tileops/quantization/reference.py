"""References of the quantization family.

Magnitudes and quotients are float32, which decides the codes; products of codes are float64.
"""

from __future__ import annotations

import torch
from torch import Tensor


def fp8_quant(input_tensor: Tensor) -> tuple[Tensor, Tensor]:
    """A scale for each run along the last axis, and float8 codes."""
    x = input_tensor.float()
    scale = x.abs().amax(-1).clamp(min=1e-4) / 448
    return scale, (x / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)


def fp8_quant_per_block(w: Tensor) -> tuple[Tensor, Tensor]:
    """float8 codes, and a scale for each tile of 128 by 128."""
    q = torch.empty(w.shape, dtype=torch.float8_e4m3fn)
    scale = torch.ones(-(-w.shape[0] // 128), -(-w.shape[1] // 128))
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            tile = slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128)
            amax = w[tile].float().abs().max()
            if amax > 0:
                scale[i, j] = amax / 448
            codes = (w[tile].float() / scale[i, j]).clamp(-448, 448)
            q[tile] = codes.to(torch.float8_e4m3fn)
    return q, scale


def int8_quant_per_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes and one scale."""
    codes, scale = _int8(x.float().flatten())
    return codes.view(x.shape), scale.view(1)


def int8_quant_per_channel(w: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes and a scale for each row."""
    codes, scales = zip(*(_int8(row.float()) for row in w), strict=True)
    return torch.stack(codes), torch.stack(scales)


def int8_quant_per_block(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes and a scale for each run of 128 along a row."""
    codes = torch.empty(x.shape, dtype=torch.int8)
    scale = torch.empty(x.shape[0], -(-x.shape[1] // 128))
    for i, row in enumerate(x):
        for j, run in enumerate(row.float().split(128)):
            codes[i, 128 * j : 128 * j + len(run)], scale[i, j] = _int8(run)
    return codes, scale


def smooth_quant(x: Tensor, smooth: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes of the smoothed rows, and a scale for each."""
    return int8_quant_per_channel(x.float() / smooth)


def int4_quant_per_group(w: Tensor, *, group_size: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    """4-bit codes in the order of packed weights, scales and zero points."""
    n, k = w.shape
    groups = w.float().view(n, k // group_size, group_size)
    zeros = torch.zeros(n, k // group_size)
    low = torch.minimum(groups.amin(2), zeros)
    high = torch.maximum(groups.amax(2), zeros)
    scale = ((high - low) / 15).clamp(min=torch.finfo(w.dtype).smallest_normal)
    scale[(low == 0) & (high == 0)] = 1.0
    scale = scale.to(w.dtype)
    zero = torch.round(-low / scale.float())
    codes = torch.round(groups / scale.float()[..., None]) + zero[..., None]
    codes = codes.clamp(0, 15).view(n, k)
    packed = torch.zeros(n, k // 2)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        packed[:, place // 2 :: 4] += codes[:, column::8] * (16 if place % 2 else 1)
    return packed.to(torch.uint8), scale, zero.to(torch.uint8)


def int8_dequant_per_tensor(q: Tensor, scale: Tensor, *, out_dtype: torch.dtype) -> Tensor:
    """Codes times one scale."""
    return (q.double() * scale.double()).to(out_dtype)


def int8_dequant_per_channel(q: Tensor, scale: Tensor, *, out_dtype: torch.dtype) -> Tensor:
    """Codes times the scale of their row."""
    return (q.double() * scale[:, None].double()).to(out_dtype)


def int8_dequant_per_block(q: Tensor, scale: Tensor, *, out_dtype: torch.dtype) -> Tensor:
    """Codes times the scale of their run of 128 along a row."""
    runs = [column // 128 for column in range(q.shape[1])]
    return (q.double() * scale[:, runs].double()).to(out_dtype)


def _int8(run: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and the scale of one run of numbers."""
    amax = run.abs().max()
    scale = amax / 127 if amax > 0 else torch.ones_like(amax)
    return torch.round(run / scale).clamp(-127, 127).to(torch.int8), scale
