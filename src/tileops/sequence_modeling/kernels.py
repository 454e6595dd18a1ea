"""Kernel interfaces of the sequence_modeling family and their plain-torch implementations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel

RMS_EPS = 1e-4
"""What is added to the root mean square of a stream, outside the root."""


@dataclass(frozen=True)
class MHCPreCall(CallSpec):
    """Coefficients of a stream, the mixed stream, and what the layer reads.

    Args:
        n: copies of the stream.
        c_x: width of a copy.
        alpha_pre: factor of the coefficients that make the layer's input.
        alpha_post: factor of those that spread its result.
        alpha_res: factor of those that mix the copies.
        sinkhorn_repeat: rounds that make the mixing matrix doubly stochastic.
        sinkhorn_eps: what is added to each sum there.
    """

    n: int
    c_x: int
    alpha_pre: float
    alpha_post: float
    alpha_res: float
    sinkhorn_repeat: int
    sinkhorn_eps: float


class MHCPreFwdInterface(KernelInterface):
    """What precedes a layer."""

    request = MHCPreCall

    @abstractmethod
    def forward(self, phi: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute, all in float32, with `r = sqrt(mean(x²)) + 1e-4` and `h = (x @ phi) / r`.

        `h` and `b` hold `n` coefficients *pre*, `n` *post* and `[n, n]` *res*. `pre = sigmoid(
        alpha_pre * h + b)`, `post = 2 * sigmoid(alpha_post * h + b)`, and with `A = alpha_res * h +
        b` the mixing matrix is `exp(A - rowmax(A))`, `sinkhorn_repeat` times divided by its row
        sums plus eps, then by its column sums plus eps.

        Args:
            phi: `[n * c_x, n * n + 2 * n]` float32, any strides, on `call.device`; read.
            x: `[B, n * c_x]` bfloat16, likewise; read.
            b: `[n * n + 2 * n]` float32, likewise; read.

        Returns:
            New contiguous tensors: the mixed copies `[B, n * c_x]` bfloat16; their sum weighted by
            *pre* `[B, c_x]` bfloat16; *post* `[B, n]` float32. `B` is positive and varies.
        """


class MHCPrePortableKernel(PortableKernel[MHCPreCall], MHCPreFwdInterface):
    """The mixture by torch."""

    def forward(self, phi: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute."""
        call, stream = self.call, x.float()
        r = stream.square().mean(-1, keepdim=True).sqrt() + RMS_EPS
        parts = (call.n, call.n, call.n * call.n)
        h_pre, h_post, h_res = ((stream @ phi) / r).split(parts, -1)
        b_pre, b_post, b_res = b.split(parts)
        pre = torch.sigmoid(call.alpha_pre * h_pre + b_pre)
        post = 2 * torch.sigmoid(call.alpha_post * h_post + b_post)
        mixing = self._stochastic((call.alpha_res * h_res + b_res).view(-1, call.n, call.n))
        copies = stream.view(-1, call.n, call.c_x)
        mixed = (mixing @ copies).flatten(1).to(x.dtype)
        return mixed, (pre[:, None] @ copies)[:, 0].to(x.dtype), post

    def _stochastic(self, logits: Tensor) -> Tensor:
        """Matrices whose rows and columns add up to about 1."""
        eps = self.call.sinkhorn_eps
        matrix = torch.exp(logits - logits.amax(-1, keepdim=True))
        for _ in range(self.call.sinkhorn_repeat):
            matrix = matrix / (matrix.sum(-1, keepdim=True) + eps)
            matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
        return matrix


@dataclass(frozen=True)
class MHCPostCall(CallSpec):
    """A layer's result spread over the copies of a stream.

    Args:
        n: copies of the stream.
        c_x: width of a copy.
    """

    n: int
    c_x: int


class MHCPostFwdInterface(KernelInterface):
    """What follows a layer."""

    request = MHCPostCall

    @abstractmethod
    def forward(self, x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
        """Add `h_post[i] * x_layer_out` to each copy `i`, in float32.

        Args:
            x_layer_out: `[B, c_x]` bfloat16, any strides, on `call.device`; read.
            h_post: `[B, n]` float32, likewise; read.
            x_res: `[B, n * c_x]` bfloat16, likewise; read.

        Returns:
            A new contiguous `[B, n * c_x]` bfloat16, rounded once. `B` is positive and varies.
        """


class MHCPostPortableKernel(PortableKernel[MHCPostCall], MHCPostFwdInterface):
    """The sums by torch."""

    @classmethod
    def entry_for(cls, call: MHCPostCall) -> tuple[Hashable, Callable[[], MHCPostPortableKernel]]:
        """One build for all calls."""
        return (), lambda: cls(call)

    def forward(self, x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
        """Add."""
        spread = (h_post[:, :, None] * x_layer_out.float()[:, None]).flatten(1)
        return (x_res.float() + spread).to(x_res.dtype).contiguous()
