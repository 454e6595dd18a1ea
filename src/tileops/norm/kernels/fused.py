"""Norms fused with what follows them: quantisation of rows, rotation of heads.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.norm.kernels.root_mean_square import RootMeanSquareNorm


@dataclass(frozen=True)
class AddRMSNormQuantCall(CallSpec):
    """Residual addition, RMSNorm of rows of `n` elements and quantisation by row.

    Args:
        n: elements of a row.
        eps: added to the mean of squares.
        scale_ub: bound of a row's largest magnitude, or None.
        dtype: element type of the inputs.
        quant_dtype: float8_e4m3fn or int8.
    """

    n: int
    eps: float
    scale_ub: float | None
    dtype: torch.dtype
    quant_dtype: torch.dtype

    @property
    def largest(self) -> float:
        """The number that a row's largest magnitude becomes."""
        return 127.0 if self.quant_dtype is torch.int8 else 448.0


class AddRMSNormQuantFwdInterface(KernelInterface):
    """`residual_out = x + residual`, RMSNorm of it, and its rows as `q * scale`."""

    request = AddRMSNormQuantCall

    @abstractmethod
    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add, normalise and quantise every row.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            residual: `[M, n]` likewise; read.
            weight: `[n]` likewise; read.

        Returns:
            `(q, scale, residual_out)`, new and contiguous: `[M, n]` in `call.quant_dtype`,
            `[M, 1]` float32, `[M, n]` in `call.dtype`. With `y` the norm in float32 and `amax` the
            largest magnitude of its row, at most `call.scale_ub`: `scale = amax / call.largest`,
            or 1 where `amax` is 0; `q = y / scale`, saturated, rounded to nearest even.
        """


class AddRMSNormQuantPortableKernel(
    PortableKernel[AddRMSNormQuantCall], AddRMSNormQuantFwdInterface
):
    """Sum, norm and quantisation by torch."""

    def __init__(self, call: AddRMSNormQuantCall) -> None:
        super().__init__(call)
        self._norm = RootMeanSquareNorm(call.n, call.eps)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add, normalise and quantise every row."""
        call = self.call
        residual_out = torch.add(x, residual)
        y = self._norm(residual_out.float(), weight.float())
        amax = y.abs().amax(-1, keepdim=True)
        if call.scale_ub is not None:
            amax = amax.clamp(max=call.scale_ub)
        scale = torch.where(amax == 0, 1.0, amax / call.largest)
        y /= scale
        if call.quant_dtype is torch.int8:
            return y.round_().clamp_(-128, 127).to(torch.int8), scale, residual_out
        return y.clamp_(-448, 448).to(call.quant_dtype), scale, residual_out


@dataclass(frozen=True)
class HeadNormRotaryCall(CallSpec):
    """RMSNorm and rotation of the query and key heads of packed rows, in place.

    Args:
        heads: query heads.
        kv_heads: key heads, and as many value heads, which are left alone.
        head_dim: channels of a head.
        rotary_dim: channels that are rotated, the first ones of a head; even and positive.
        eps: added to the mean of squares.
        layout: `"neox"` pairs channel `i` with `i + rotary_dim / 2`, `"interleaved"` pairs `2i`
            with `2i + 1`.
        dtype: element type of rows and weights.
        cache_dtype: element type of the table.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    eps: float
    layout: Literal["neox", "interleaved"]
    dtype: torch.dtype
    cache_dtype: torch.dtype


class HeadNormRotaryFwdInterface(KernelInterface):
    """RMSNorm of each query and key head, then the rotation of its first channels."""

    request = HeadNormRotaryCall

    @abstractmethod
    def forward(
        self, qkv: Tensor, q_weight: Tensor, k_weight: Tensor, cache: Tensor, positions: Tensor
    ) -> None:
        """Normalise and rotate in place.

        Args:
            qkv: `[N, (heads + 2 kv_heads) * head_dim]` in `call.dtype`, any strides, on
                `call.device`: queries, keys, values; read, and written but for the values.
            q_weight: `[head_dim]` in `call.dtype`, contiguous; read.
            k_weight: likewise; read.
            cache: `[P, rotary_dim]` in `call.cache_dtype`, contiguous: cosines in the left half of
                a row, sines in the right; read.
            positions: `[N]` int64, contiguous, the row of the table for each row; read.

        Norm and rotation are float32, rounded once.
        """


class HeadNormRotaryPortableKernel(PortableKernel[HeadNormRotaryCall], HeadNormRotaryFwdInterface):
    """Norm and rotation by torch, on a view of the heads."""

    def __init__(self, call: HeadNormRotaryCall) -> None:
        super().__init__(call)
        self._norm = RootMeanSquareNorm(call.head_dim, call.eps)

    def forward(
        self, qkv: Tensor, q_weight: Tensor, k_weight: Tensor, cache: Tensor, positions: Tensor
    ) -> None:
        """Normalise and rotate in place."""
        call = self.call
        total = call.heads + call.kv_heads
        heads = qkv.unflatten(1, (total + call.kv_heads, call.head_dim))[:, :total]
        rows = cache[positions].float()[:, None]
        cos, sin = rows.chunk(2, -1)
        normed = self._norm(heads.float(), None)
        normed[:, : call.heads] *= q_weight
        normed[:, call.heads :] *= k_weight
        first, second = self._pairs(normed)
        turned = first * cos - second * sin, second * cos + first * sin
        first.copy_(turned[0])
        second.copy_(turned[1])
        heads.copy_(normed)

    def _pairs(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second channel of every pair, as views."""
        width = self.call.rotary_dim
        if self.call.layout == "interleaved":
            return heads[..., 0:width:2], heads[..., 1:width:2]
        return heads[..., : width // 2], heads[..., width // 2 : width]
