"""Fourier transform ops: rows of the last axis, handed to one kernel interface."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops.fft.kernels import FFTCall, FFTFwdInterface, FFTPortableKernel

__all__ = ["FFTC2CFwdOp"]


class FFTC2CFwdOp(Op):
    """Forward complex DFT of the last axis, unnormalised, of a power of two of elements.

    complex64 is float32 arithmetic, complex128 double throughout.

    Source: `torch.fft.fft`.
    """

    kernel_types = {"portable": FFTPortableKernel}
    interfaces = {"fft": FFTFwdInterface}

    def forward(self, input: Tensor) -> Tensor:
        """Transform the last axis of `input`."""
        n = input.shape[-1]
        rows = input.resolve_conj().reshape(-1, n).contiguous()
        call = FFTCall(n, input.dtype, device=input.device)
        return self.kernel_for("fft", call)(rows).view(input.shape)
