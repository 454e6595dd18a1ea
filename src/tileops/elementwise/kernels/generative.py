"""Interfaces of tensors made of parameters alone, and their implementations."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class AlibiCall(CallSpec):
    """Attention biases of `num_heads` heads over `seq_len` positions."""

    seq_len: int
    num_heads: int
    dtype: torch.dtype


class AlibiFwdInterface(KernelInterface):
    """`-2^(-8 (h + 1) / num_heads) * abs(i - j)`."""

    request = AlibiCall

    @abstractmethod
    def forward(self) -> Tensor:
        """Make the biases.

        Returns:
            A new contiguous `[num_heads, seq_len, seq_len]` in `call.dtype` on `call.device`,
            computed in float32 and rounded once.
        """


class AlibiPortableKernel(PortableKernel[AlibiCall], AlibiFwdInterface):
    """The biases by torch, a head at a time."""

    def forward(self) -> Tensor:
        """Make the biases."""
        call = self.call
        shape = (call.num_heads, call.seq_len, call.seq_len)
        biases = torch.empty(shape, dtype=call.dtype, device=call.device)
        position = torch.arange(call.seq_len, dtype=torch.float32, device=call.device)
        distance = (position[:, None] - position).abs_()
        for head, bias in enumerate(biases):
            bias.copy_(distance * -(2.0 ** (-8 * (head + 1) / call.num_heads)))
        return biases


@dataclass(frozen=True)
class SinusoidalCall(CallSpec):
    """Position embeddings of `d_model` channels over `seq_len` positions."""

    seq_len: int
    d_model: int
    dtype: torch.dtype


class SinusoidalFwdInterface(KernelInterface):
    """`sin(p / 10000^(2i / d_model))` in channel `2i`, the cosine in channel `2i + 1`."""

    request = SinusoidalCall

    @abstractmethod
    def forward(self) -> Tensor:
        """Make the embeddings.

        Returns:
            A new contiguous `[seq_len, d_model]` in `call.dtype` on `call.device`; angle, sine and
            cosine are float32 or wider, rounded once.
        """


class SinusoidalPortableKernel(PortableKernel[SinusoidalCall], SinusoidalFwdInterface):
    """The embeddings by torch in float64, the turns of few positions multiplied to those of all."""

    def forward(self) -> Tensor:
        """Make the embeddings: `1j * exp(-1j * angle)` is the sine and, imaginary, the cosine."""
        call = self.call
        channel = torch.arange(0, call.d_model, 2, dtype=torch.float64, device=call.device)
        rate = -1j * torch.pow(10000.0, -channel / call.d_model)
        block = math.isqrt(call.seq_len)
        first = torch.arange(0, call.seq_len, block, device=call.device)
        within = torch.arange(block, device=call.device)
        start, further = (torch.exp(position[:, None] * rate) for position in (first, within))
        both = torch.view_as_real(start[:, None] * (1j * further))
        return both.view(-1, call.d_model)[: call.seq_len].to(call.dtype)
