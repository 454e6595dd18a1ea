"""Fourier transforms as torch has them; torch calls cuFFT on CUDA."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "FFTC2CFwdOp")
def fft(op: Any, x: Tensor) -> Tensor:
    return torch.fft.fft(x)
