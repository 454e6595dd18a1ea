"""References of the rope family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor


def rope(
    x: Tensor, *, rope_layout: str = "neox", input_layout: str = "1d", base: float = 10000.0
) -> Tensor:
    """Pairs turned by `position * base^(-2i / D)`."""
    return _rotated(x, _plain(x, base), layout=rope_layout)


def rope_llama31(
    x: Tensor,
    *,
    input_layout: str = "1d",
    base: float = 10000.0,
    scale_factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_position: int = 8192,
) -> Tensor:
    """Long waves divided by the scale, those in between blended."""
    adjusted = []
    for f in _plain(x, base).tolist():
        wave = 2 * math.pi / f
        if wave < original_max_position / high_freq_factor:
            adjusted.append(f)
        elif wave > original_max_position / low_freq_factor:
            adjusted.append(f / scale_factor)
        else:
            t = original_max_position / wave - low_freq_factor
            t /= high_freq_factor - low_freq_factor
            adjusted.append((1 - t) * f / scale_factor + t * f)
    return _rotated(x, torch.tensor(adjusted, dtype=torch.float64))


def yarn(
    x: Tensor,
    *,
    input_layout: str = "1d",
    base: float = 10000.0,
    scale: float = 16.0,
    original_max_position: int = 4096,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attn_factor: float = 1.0,
) -> Tensor:
    """Frequencies blended by parts, cosines and sines scaled."""
    width = x.shape[-1]

    def pair(turns: float) -> float:
        exact = width * math.log(original_max_position / (2 * math.pi * turns))
        return exact / (2 * math.log(base))

    first, last = math.floor(pair(beta_fast)), math.ceil(pair(beta_slow))
    first, last = (min(max(end, 0), width - 1) for end in (first, last))
    blended = []
    for i, f in enumerate(_plain(x, base).tolist()):
        slope = last - first if last != first else 0.001
        share = min(max((i - first) / slope, 0.0), 1.0)
        blended.append((1 - share) * f + share * f / scale)
    amplitude = attn_factor * (0.1 * math.log(scale) + 1 if scale > 1 else 1)
    return _rotated(x, torch.tensor(blended, dtype=torch.float64), amplitude)


def long_rope(
    x: Tensor,
    *,
    input_layout: str = "1d",
    base: float = 10000.0,
    rescale_factors: Tensor | None = None,
    max_position_embeddings: int = 4096,
    original_max_position_embeddings: int = 4096,
) -> Tensor:
    """Each frequency divided by its factor, cosines and sines scaled."""
    frequencies, amplitude = _plain(x, base), 1.0
    if rescale_factors is not None:
        frequencies = frequencies / rescale_factors.double().to(frequencies.device)
    if max_position_embeddings > original_max_position_embeddings:
        longer = math.log(max_position_embeddings / original_max_position_embeddings)
        amplitude = math.sqrt(1 + longer / math.log(original_max_position_embeddings))
    return _rotated(x, frequencies, amplitude)


def rope_neox_position_ids(
    x: Tensor,
    position_ids: Tensor,
    *,
    max_position: int,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Tensor:
    """The first `rotary_dim` channels turned by the given positions."""
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    frequencies = _plain(x[..., :width], base)
    turned = _rotated(x[None, ..., :width], frequencies, positions=position_ids)[0]
    return torch.cat((turned, x[..., width:]), -1)


def rope_bwd(grad_out: Tensor, **params: Any) -> Tensor:
    """The transpose of the rotation."""
    return _transposed(partial(rope, **params), grad_out)


def rope_llama31_bwd(grad_out: Tensor, **params: Any) -> Tensor:
    """The transpose of the rotation."""
    return _transposed(partial(rope_llama31, **params), grad_out)


def yarn_bwd(grad_out: Tensor, **params: Any) -> Tensor:
    """The transpose of the rotation."""
    return _transposed(partial(yarn, **params), grad_out)


def long_rope_bwd(grad_out: Tensor, **params: Any) -> Tensor:
    """The transpose of the rotation."""
    return _transposed(partial(long_rope, **params), grad_out)


def rope_neox_position_ids_bwd(grad_out: Tensor, position_ids: Tensor, **params: Any) -> Tensor:
    """The transpose of the rotation."""
    rotation = partial(rope_neox_position_ids, position_ids=position_ids, **params)
    return _transposed(rotation, grad_out)


def _transposed(rotation: Callable[[Tensor], Tensor], grad_out: Tensor) -> Tensor:
    """What torch gives as the gradient of a linear function, rounded once."""
    leaf = torch.zeros_like(grad_out, dtype=torch.float64).requires_grad_()
    with torch.enable_grad():
        found = rotation(leaf)
    (grad,) = torch.autograd.grad(found, leaf, grad_out.double())
    return grad.to(grad_out.dtype)


def _plain(x: Tensor, base: float) -> Tensor:
    """`base^(-2i / D)` of each pair."""
    width = x.shape[-1]
    return 1 / base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)


def _rotated(
    x: Tensor,
    frequencies: Tensor,
    amplitude: float = 1.0,
    *,
    layout: str = "neox",
    positions: Tensor | None = None,
) -> Tensor:
    """Every pair as a complex number, turned; the sequence is axis 0 of 2, or axis 1 of 4."""
    wide = x.double()
    if layout == "neox":
        pairs = torch.complex(*wide.chunk(2, -1))
    else:
        pairs = torch.complex(wide[..., ::2], wide[..., 1::2])
    length = x.shape[0 if x.dim() == 2 else 1]
    where = torch.arange(length, device=x.device) if positions is None else positions
    angles = where.double()[:, None] * frequencies.to(x.device)
    turns = torch.polar(torch.full_like(angles, amplitude), angles)
    pairs = pairs * (turns if x.dim() == 2 else turns[:, None])
    if layout == "neox":
        return torch.cat((pairs.real, pairs.imag), -1).to(x.dtype)
    return torch.view_as_real(pairs).flatten(-2).to(x.dtype)
