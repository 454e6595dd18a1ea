"""Kernel interface of the rope family and its plain-torch implementation.

The op makes the tables of cosines and sines; kernels rotate by them. Not for TileLang programs,
which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class RotaryCall(CallSpec):
    """A rotation of pairs of channels by tabled angles.

    Args:
        layout: `"neox"` pairs channel `i` with `i + rotary_dim / 2`, `"interleaved"` pairs `2i`
            with `2i + 1`.
        head_dim: channels of a head.
        rotary_dim: channels that are rotated, the first ones of a head; even and positive.
        has_positions: whether table rows are chosen by position ids.
        dtype: element type of input and result.
    """

    layout: Literal["neox", "interleaved"]
    head_dim: int
    rotary_dim: int
    has_positions: bool
    dtype: torch.dtype


class RotaryFwdInterface(KernelInterface):
    """`(a cos - b sin, b cos + a sin)` for each pair `(a, b)` of channels."""

    request = RotaryCall

    @abstractmethod
    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate.

        Args:
            x: `[B, S, H, head_dim]` in `call.dtype`, any strides, on `call.device`; read.
            cos: `[P, rotary_dim / 2]` float32, contiguous, on `call.device`; read. `P >= S`
                unless there are positions.
            sin: likewise; read.
            positions: `[S]` int32 or int64, contiguous: the table row of each place of the
                sequence, within the table; None exactly when `call.has_positions` is false, and
                place `s` takes row `s`.

        Returns:
            A new contiguous `[B, S, H, head_dim]` in `call.dtype`. Arithmetic is float32, rounded
            once; channels from `rotary_dim` on are copied bit for bit. Lengths vary between calls.
        """


class RotaryPortableKernel(PortableKernel[RotaryCall], RotaryFwdInterface):
    """The rotation by torch; a float32 table makes it compute half types in float32."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate."""
        rows = slice(x.shape[1]) if positions is None else positions
        cos, sin = cos[rows][:, None], sin[rows][:, None]
        output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        (a, b), (first, second) = self._pairs(x), self._pairs(output)
        first.copy_(a * cos - b * sin)
        second.copy_(b * cos + a * sin)
        output[..., self.call.rotary_dim :] = x[..., self.call.rotary_dim :]
        return output

    def _pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second channel of every pair, as views."""
        width = self.call.rotary_dim
        if self.call.layout == "interleaved":
            return x[..., 0:width:2], x[..., 1:width:2]
        return x[..., : width // 2], x[..., width // 2 : width]
