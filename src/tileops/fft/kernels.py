"""Kernel interface of the fft family and its plain-torch implementation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class FFTCall(CallSpec):
    """The forward transform of rows of `n` complex numbers, a power of two."""

    n: int
    dtype: torch.dtype


class FFTFwdInterface(KernelInterface):
    """`y[k] = sum(x[j] * exp(-2 pi i j k / n))` for each row."""

    request = FFTCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Transform every row.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous and not lazily conjugated, on `call.device`;
                read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`: complex64 in float32, complex128 in float64,
            with twiddle factors accurate to the last digits. `M` is positive and varies between
            calls.
        """


class FFTPortableKernel(PortableKernel[FFTCall], FFTFwdInterface):
    """The transform by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Transform every row."""
        transformed: Tensor = torch.fft.fft(x)
        return transformed
