"""Norms of rows: interfaces take matrices; ops flatten leading and trailing axes.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._core.dispatch.alignment import BOUNDARY, aligned
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

_HOPPER = 90


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
    """RMSNorm by torch, which forms the statistics and both products in float32."""

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return F.rms_norm(x, (self.call.n,), weight, self.call.eps)


def _vector(n: int, dtype: torch.dtype) -> int:
    """Elements of the widest access that divides a row."""
    return math.gcd(BOUNDARY // dtype.itemsize, n)


class RMSNormOnChipKernel(Kernel, RMSNormFwdInterface):
    """RMSNorm with each row held in registers: the matrix is read once and written once.

    Args:
        n: elements of a row.
        dtype: element type.
        eps: added to the mean of squares.
        has_weight: whether a weight is applied.
    """

    supported_archs = frozenset({_HOPPER})
    preferred_over = frozenset({"streaming"})

    LONGEST_ROW = 1 << 15
    """Elements of the longest row that the registers of a block hold."""
    _HELD = 64  # elements a thread holds at most
    _LANES = (128, 256, 512)  # threads of a row that are worth trying

    def __init__(self, n: int, dtype: torch.dtype, eps: float, has_weight: bool) -> None:
        super().__init__()
        self.n, self.dtype, self.eps, self.has_weight = n, dtype, eps, has_weight

    @classmethod
    def refusal(cls, call: RMSNormCall) -> str | None:
        """Refuses rows that do not fit."""
        if call.n > cls.LONGEST_ROW:
            return f"holds rows of at most {cls.LONGEST_ROW} elements in registers, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: RMSNormCall) -> tuple[Hashable, Callable[[], RMSNormOnChipKernel]]:
        """One build for each kind of row; the number of rows is none of it."""
        constants = (call.n, call.dtype, call.eps, call.has_weight)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Two vectors a thread or more, and blocks of at least four warps."""
        vectors = self.n // _vector(self.n, self.dtype)
        lanes = min(256, 1 << max(1, vectors // 2).bit_length() - 1)
        if self.n > lanes * self._HELD:
            lanes = 512
        return self._config_of(lanes)

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other numbers of threads that can hold a row."""
        others = [lanes for lanes in self._LANES if lanes <= self.n <= lanes * self._HELD]
        configs = [self.default_config, *map(self._config_of, others)]
        return [config for place, config in enumerate(configs) if config not in configs[:place]]

    @staticmethod
    def _config_of(lanes: int) -> Mapping[str, Any]:
        return {"lanes": lanes, "rows": max(1, 128 // lanes)}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_rms_norm_on_chip

        name = str(self.dtype).removeprefix("torch.")
        program = build_rms_norm_on_chip(self.n, name, self.eps, weighted=self.has_weight, **config)
        return program.compile(_HOPPER)

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _normalised(self.program(), x, weight)


class RMSNormStreamingKernel(Kernel, RMSNormFwdInterface):
    """RMSNorm of rows of any length: each is read twice, mostly from the L2 cache the second time.

    Args:
        vector: elements of one access, a divisor of the rows' length.
        dtype: element type.
        eps: added to the mean of squares.
        has_weight: whether a weight is applied.
    """

    supported_archs = frozenset({_HOPPER})

    def __init__(self, vector: int, dtype: torch.dtype, eps: float, has_weight: bool) -> None:
        super().__init__()
        self.vector, self.dtype, self.eps, self.has_weight = vector, dtype, eps, has_weight

    @classmethod
    def entry_for(cls, call: RMSNormCall) -> tuple[Hashable, Callable[[], RMSNormStreamingKernel]]:
        """One build for all lengths that allow the same accesses."""
        constants = (_vector(call.n, call.dtype), call.dtype, call.eps, call.has_weight)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory."""
        return {"threads": 512, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_rms_norm_streaming

        name = str(self.dtype).removeprefix("torch.")
        program = build_rms_norm_streaming(
            name, self.eps, weighted=self.has_weight, count=self.vector, **config
        )
        return program.compile(_HOPPER)

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _normalised(self.program(), x, weight)


def _normalised(program: Callable[..., None], x: Tensor, weight: Tensor | None) -> Tensor:
    """Launch a program on the tensors of a call."""
    output = torch.empty_like(x)
    if weight is None:
        program(aligned(x), output)
    else:
        program(aligned(x), aligned(weight), output)
    return output


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

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        residual_out = torch.add(x, residual)
        return F.rms_norm(residual_out, (self.call.n,), weight, self.call.eps), residual_out


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
        return F.layer_norm(x, (self.call.n,), weight, bias, self.call.eps)


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
        output = F.layer_norm(residual_out, (self.call.n,), weight, bias, self.call.eps)
        return output, residual_out


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
    """The norm by torch in float32, the affine map in place."""

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """Normalise every row."""
        normed = F.layer_norm(x.float(), (self.call.n,), eps=self.call.eps)
        normed.mul_(scale).add_(shift)
        return (normed if gate is None else normed.mul_(gate)).to(x.dtype)
