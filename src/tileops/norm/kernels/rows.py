"""Norms of rows: interfaces take matrices; ops flatten leading and trailing axes.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._kernels.pieces import by_rows
from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.norm.kernels.lone import lone_norm
from tileops.norm.kernels.root_mean_square import RootMeanSquareNorm


@dataclass(frozen=True)
class RMSNormCall(CallSpec):
    """RMSNorm of rows of `n` elements, with or without a weight."""

    n: int
    eps: float
    has_weight: bool
    dtype: torch.dtype


class RMSNormFwdInterface(KernelInterface):
    """`x / sqrt(mean(x²) + eps) * weight` for each row."""

    request = RMSNormCall

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row of `x`.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            weight: `[n]` likewise, or None exactly when `call.has_weight` is false; read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`. Sums of squares and products are float32,
            rounded once. `M` is positive and varies between calls; `n` is positive.
        """


class RMSNormPortableKernel(PortableKernel[RMSNormCall], RMSNormFwdInterface):
    """RMSNorm by torch."""

    def __init__(self, call: RMSNormCall) -> None:
        super().__init__(call)
        self._norm = RootMeanSquareNorm(call.n, call.eps)

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return self._norm(x, weight)


class AddRMSNormFwdInterface(KernelInterface):
    """`residual_out = x + residual`, then RMSNorm of the rounded `residual_out`."""

    request = RMSNormCall

    @abstractmethod
    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalise every row.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            residual: `[M, n]` likewise; read.
            weight: `[n]` likewise; read.

        Returns:
            `(output, residual_out)`, two new contiguous `[M, n]` in `call.dtype`. `output` equals
            RMSNorm applied to `residual_out`. `M` is positive and varies between calls.
        """


class AddRMSNormPortableKernel(PortableKernel[RMSNormCall], AddRMSNormFwdInterface):
    """Sum and RMSNorm by torch."""

    def __init__(self, call: RMSNormCall) -> None:
        super().__init__(call)
        self._norm = RootMeanSquareNorm(call.n, call.eps)

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        residual_out = torch.add(x, residual)
        return self._norm(residual_out, weight), residual_out


@dataclass(frozen=True)
class LayerNormCall(CallSpec):
    """LayerNorm of rows of `n` elements, with or without weight and bias."""

    n: int
    eps: float
    has_weight: bool
    has_bias: bool
    dtype: torch.dtype


class LayerNormFwdInterface(KernelInterface):
    """`(x - mean) / sqrt(var + eps) * weight + bias` for each row, with the biased variance."""

    request = LayerNormCall

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every row of `x`.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            weight: `[n]` likewise, or None exactly when `call.has_weight` is false; read.
            bias: `[n]` likewise, or None exactly when `call.has_bias` is false; read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`. The variance is of centred values, statistics
            and affine map are float32, rounded once. `M` is positive and varies between calls.
        """


class LayerNormPortableKernel(PortableKernel[LayerNormCall], LayerNormFwdInterface):
    """LayerNorm by torch, which forms the statistics in float32 by Welford's recurrence."""

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _layer_norm(x, weight, bias, self.call)


class AddLayerNormFwdInterface(KernelInterface):
    """`residual_out = x + residual`, then LayerNorm of the rounded `residual_out`."""

    request = LayerNormCall

    @abstractmethod
    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalise every row.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            residual: `[M, n]` likewise; read.
            weight: `[n]` likewise; read.
            bias: `[n]` likewise; read.

        Returns:
            `(output, residual_out)`, two new contiguous `[M, n]` in `call.dtype`. `output` equals
            LayerNorm applied to `residual_out`. `M` is positive and varies between calls.
        """


class AddLayerNormPortableKernel(PortableKernel[LayerNormCall], AddLayerNormFwdInterface):
    """Sum and LayerNorm by torch."""

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        residual_out = torch.add(x, residual)
        return _layer_norm(residual_out, weight, bias, self.call), residual_out


def _layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, call: LayerNormCall
) -> Tensor:
    """LayerNorm of rows, by torch where they have several elements."""
    if call.n == 1:
        return lone_norm(x, weight, bias)
    return F.layer_norm(x, (call.n,), weight, bias, call.eps)


@dataclass(frozen=True)
class AdaLayerNormCall(CallSpec):
    """LayerNorm of rows of `n` elements, each with an affine map of its own, perhaps gated."""

    n: int
    eps: float
    has_gate: bool
    dtype: torch.dtype


class AdaLayerNormFwdInterface(KernelInterface):
    """`gate * ((x - mean) / sqrt(var + eps) * scale + shift)` for each row."""

    request = AdaLayerNormCall

    @abstractmethod
    def forward(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """Normalise every row of `x`.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.
            scale: `[M, n]` likewise; read.
            shift: `[M, n]` likewise; read.
            gate: `[M, n]` likewise, or None exactly when `call.has_gate` is false; read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`; statistics and products are float32, rounded
            once. `M` is positive and varies between calls.
        """


class AdaLayerNormPortableKernel(PortableKernel[AdaLayerNormCall], AdaLayerNormFwdInterface):
    """The norm by torch in float32, of groups of one row each; the affine map in place."""

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """Normalise every row."""

        def affine(output: Tensor, operands: Iterator[Tensor]) -> None:
            x = next(operands)
            normed = torch.group_norm(x[None], len(x), eps=self.call.eps)[0]
            scale, shift = islice(operands, 2)
            torch.addcmul(shift, normed, scale, out=output)
            for gate in operands:
                output.mul_(gate)

        output = torch.empty_like(x)
        by_rows(affine, [output], [x, scale, shift] if gate is None else [x, scale, shift, gate])
        return output
