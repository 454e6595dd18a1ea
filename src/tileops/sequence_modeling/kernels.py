"""Kernel interfaces of the sequence_modeling family and their implementations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

RMS_EPS = 1e-4
"""What is added to the root mean square of a stream, outside the root."""
WIDEST = 8
"""Elements of 16 bits in the widest access."""


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
        rows: tokens; it varies between calls and serves selection only.
    """

    n: int
    c_x: int
    alpha_pre: float
    alpha_post: float
    alpha_res: float
    sinkhorn_repeat: int
    sinkhorn_eps: float
    rows: int

    @property
    def constants(self) -> tuple[int, int, float, float, float, int, float]:
        """All but the rows."""
        alphas = self.alpha_pre, self.alpha_post, self.alpha_res
        return self.n, self.c_x, *alphas, self.sinkhorn_repeat, self.sinkhorn_eps


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

    @classmethod
    def entry_for(cls, call: MHCPreCall) -> tuple[Hashable, Callable[[], MHCPrePortableKernel]]:
        """One build for all rows."""
        return call.constants, lambda: cls(call)

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


class MHCPreFewRowsKernel(Kernel, MHCPreFwdInterface):
    """The mixture of few tokens: blocks project channels, others add up and mix.

    Args:
        constants: of the call, all but its rows.
    """

    supported_archs = frozenset({HOPPER})

    MOST_ROWS = 64
    """With more, a product of matrices is worth its launch."""
    MOST_COPIES = 4
    """What registers hold coefficients for."""
    CHANNELS = 256
    """Of a part that a block projects."""

    def __init__(self, constants: tuple[int, int, float, float, float, int, float]) -> None:
        super().__init__()
        self.constants = constants
        self.n, self.c_x = constants[:2]

    @classmethod
    def refusal(cls, call: MHCPreCall) -> str | None:
        """Refuses many rows, and more copies than registers hold."""
        if call.rows > cls.MOST_ROWS:
            return f"mixes at most {cls.MOST_ROWS} rows, not {call.rows}"
        if call.n > cls.MOST_COPIES:
            return f"mixes at most {cls.MOST_COPIES} copies, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: MHCPreCall) -> tuple[Hashable, Callable[[], MHCPreFewRowsKernel]]:
        """One build for all rows."""
        return call.constants, lambda: cls(call.constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.sequence_modeling.programs import Mixture, build_mhc_pre

        mixture = Mixture(
            self.n, self.c_x, self.constants[2:5], *self.constants[5:], RMS_EPS, self.CHANNELS
        )
        return build_mhc_pre(mixture).compile(HOPPER)

    def forward(self, phi: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute."""
        rows, width = x.shape
        mixed, layer = x.new_empty(rows, width), x.new_empty(rows, self.c_x)
        gates = b.new_empty(rows, self.n)
        parts = scratch(x.device, (rows, -(-width // self.CHANNELS), b.numel() + 1))
        inputs = (aligned(part.contiguous()) for part in (phi, x, b))
        self.program()(*inputs, *parts, mixed, layer, gates)
        return mixed, layer, gates


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


class MHCPostPointwiseKernel(Kernel, MHCPostFwdInterface):
    """The sums in one launch: a thread adds a result to every copy.

    Args:
        n: copies of the stream.
        width: elements of an access, which divides that of a copy.
    """

    supported_archs = frozenset({HOPPER})

    MOST_COPIES = 16
    """What registers hold an access of each for."""

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.n = n
        self.width = width

    @classmethod
    def refusal(cls, call: MHCPostCall) -> str | None:
        """Refuses more copies than registers hold."""
        if call.n > cls.MOST_COPIES:
            return f"adds to at most {cls.MOST_COPIES} copies, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: MHCPostCall) -> tuple[Hashable, Callable[[], MHCPostPointwiseKernel]]:
        """One build for each number of copies and width of an access."""
        identity = call.n, gcd(call.c_x, WIDEST)
        return identity, lambda: cls(*identity)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.sequence_modeling.programs import build_mhc_post

        return build_mhc_post(self.n, self.width).compile(HOPPER)

    def forward(self, x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
        """Add."""
        layer, gates, stream = (aligned(part.contiguous()) for part in (x_layer_out, h_post, x_res))
        rows, parts = len(layer), layer.shape[1] // self.width
        out = torch.empty_like(stream)
        copies = (part.view(rows, self.n, parts, self.width) for part in (stream, out))
        self.program()(layer.view(rows, parts, self.width), gates, *copies)
        return out
