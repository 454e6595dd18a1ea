"""Reference of the fft family: the sum as it is defined, in complex128."""

from __future__ import annotations

import torch
from torch import Tensor


def fft_c2c(input: Tensor) -> Tensor:
    """`y[k] = sum(x[j] * exp(-2 pi i j k / n))`."""
    n = input.shape[-1]
    place = torch.arange(n, device=input.device)
    angle = (place[:, None] * place % n).double() * (-2 * torch.pi / n)
    turns = torch.polar(torch.ones_like(angle), angle)
    return (input.to(torch.complex128) @ turns).to(input.dtype)
