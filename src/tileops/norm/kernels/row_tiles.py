"""Kernels of row-wise norms that TileLang makes: rows that registers hold, and longer ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops.kernels import Kernel
from tileops.norm.kernels.rows import (
    AdaLayerNormFwdInterface,
    AddLayerNormFwdInterface,
    AddRMSNormFwdInterface,
    LayerNormCall,
    LayerNormFwdInterface,
    RMSNormFwdInterface,
)


class _OnChipKernel(Kernel):
    """Normalisation with each row held in registers: every matrix is read or written once.

    Args:
        n: elements of a row.
        dtype: element type.
        eps: added to the variance or mean of squares.
        has_weight: whether there is a weight.
        has_bias: whether there is a bias.
    """

    supported_archs = frozenset({HOPPER})
    preferred_over = frozenset({"streaming"})

    LONGEST_ROW = 1 << 15
    """Elements of the longest row that the registers of a block hold."""
    centred: ClassVar[bool] = False
    added: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    gated = False
    _SMALL = 1 << 15  # bytes of a row, of which a multiprocessor has registers for two
    _HELD = 64  # elements a thread holds at most
    _LANES = (128, 256, 512)  # threads of a row that are worth trying

    def __init__(
        self,
        n: int,
        dtype: torch.dtype,
        eps: float,
        has_weight: bool = True,
        has_bias: bool = False,
    ) -> None:
        super().__init__()
        self.n, self.dtype, self.eps = n, dtype, eps
        self.has_weight, self.has_bias = has_weight, has_bias

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        """Refuses rows that do not fit."""
        if call.n > cls.LONGEST_ROW:
            return f"holds rows of at most {cls.LONGEST_ROW} elements in registers, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], Any]]:
        """One build for each kind of row; the number of rows is none of it."""
        constants = (call.n, *_kind(call))
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Two vectors a thread or more, and blocks of at least four warps."""
        vectors = self.n // widest_access(self.n, self.dtype)
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

    def _config_of(self, lanes: int) -> Mapping[str, Any]:
        """Two blocks a multiprocessor, one in memory while the other computes, if they fit."""
        resident = 2 if self.n * self.dtype.itemsize <= self._SMALL else 1
        return {"lanes": lanes, "rows": max(1, 128 // lanes), "resident": resident}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_norm_on_chip

        return build_norm_on_chip(_norm_of(self), self.n, **config).compile(HOPPER)


class _StreamingKernel(Kernel):
    """Normalisation of rows of any length: later reads of a row mostly hit the caches.

    Args:
        vector: elements of one access, a divisor of the rows' length.
        dtype: element type.
        eps: added to the variance or mean of squares.
        has_weight: whether there is a weight.
        has_bias: whether there is a bias.
    """

    supported_archs = frozenset({HOPPER})
    centred: ClassVar[bool] = False
    added: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    gated: ClassVar[bool] = False

    def __init__(
        self,
        vector: int,
        dtype: torch.dtype,
        eps: float,
        has_weight: bool = True,
        has_bias: bool = False,
    ) -> None:
        super().__init__()
        self.vector, self.dtype, self.eps = vector, dtype, eps
        self.has_weight, self.has_bias = has_weight, has_bias

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], Any]]:
        """One build for all lengths that allow the same accesses."""
        constants = (widest_access(call.n, call.dtype), *_kind(call))
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory, as far as registers reach."""
        return {"threads": 512 if self.has_bias else 1024, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_norm_streaming

        return build_norm_streaming(_norm_of(self), count=self.vector, **config).compile(HOPPER)


def _kind(call: Any) -> tuple[Any, ...]:
    """The constants of a call besides the length of its rows."""
    bias = (call.has_bias,) if isinstance(call, LayerNormCall) else ()
    return (call.dtype, call.eps, call.has_weight, *bias)


def _norm_of(kernel: _OnChipKernel | _StreamingKernel) -> Any:
    """What a kernel's program computes."""
    from tileops.norm.programs import Norm

    return Norm(
        dtype_name(kernel.dtype),
        kernel.eps,
        kernel.centred,
        kernel.has_weight,
        kernel.has_bias,
        kernel.added,
        kernel.adaptive,
        kernel.gated,
    )


def _launch(
    program: Callable[..., None],
    x: Tensor,
    residual: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The normalised rows and the sum; matrices of the call stand in for what is absent."""
    x = aligned(x)
    output = torch.empty_like(x)
    total = output if residual is None else torch.empty_like(x)
    given = (x if item is None else aligned(item) for item in (residual, weight, bias))
    program(x, *given, output, total)
    return output, total


class RMSNormOnChipKernel(_OnChipKernel, RMSNormFwdInterface):
    """RMSNorm with each row held in registers."""

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _launch(self.program(), x, weight=weight)[0]


class RMSNormStreamingKernel(_StreamingKernel, RMSNormFwdInterface):
    """RMSNorm of rows of any length."""

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _launch(self.program(), x, weight=weight)[0]


class AddRMSNormOnChipKernel(_OnChipKernel, AddRMSNormFwdInterface):
    """Sum and RMSNorm with each row held in registers."""

    added = True

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        return _launch(self.program(), x, residual, weight)


class AddRMSNormStreamingKernel(_StreamingKernel, AddRMSNormFwdInterface):
    """Sum and RMSNorm of rows of any length."""

    added = True

    def forward(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        return _launch(self.program(), x, residual, weight)


class LayerNormOnChipKernel(_OnChipKernel, LayerNormFwdInterface):
    """LayerNorm with each row held in registers."""

    centred = True

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _launch(self.program(), x, None, weight, bias)[0]


class LayerNormStreamingKernel(_StreamingKernel, LayerNormFwdInterface):
    """LayerNorm of rows of any length."""

    centred = True

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every row."""
        return _launch(self.program(), x, None, weight, bias)[0]


class AddLayerNormOnChipKernel(_OnChipKernel, AddLayerNormFwdInterface):
    """Sum and LayerNorm with each row held in registers."""

    centred = True
    added = True

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        return _launch(self.program(), x, residual, weight, bias)


class AddLayerNormStreamingKernel(_StreamingKernel, AddLayerNormFwdInterface):
    """Sum and LayerNorm of rows of any length."""

    centred = True
    added = True

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalise every row."""
        return _launch(self.program(), x, residual, weight, bias)


class AdaLayerNormOnChipKernel(_OnChipKernel, AdaLayerNormFwdInterface):
    """LayerNorm with a scale, a shift and perhaps a gate for each row, held in registers.

    Args:
        n: elements of a row.
        dtype: element type.
        eps: added to the variance.
        gated: whether there is a gate.
    """

    preferred_over = frozenset()
    centred = True
    adaptive = True

    def __init__(self, n: int, dtype: torch.dtype, eps: float, gated: bool) -> None:
        super().__init__(n, dtype, eps, True, True)
        self.gated = gated

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], Any]]:
        """One build for each kind of row; the number of rows is none of it."""
        constants = (call.n, call.dtype, call.eps, call.has_gate)
        return constants, lambda: cls(*constants)

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        """Normalise every row."""
        x = aligned(x)
        output = torch.empty_like(x)
        matrices = (x if item is None else aligned(item) for item in (gate, scale, shift))
        self.program()(x, *matrices, output, output)
        return output
