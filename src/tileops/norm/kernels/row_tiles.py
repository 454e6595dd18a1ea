"""Kernels of row-wise norms that TileLang makes: rows that registers hold, and longer ones.

Groups of the channels of a sample are rows, too. Running statistics are left to torch, and so is
BatchNorm, whose channels are no rows of memory; of its gradients `batch_tiles.py` takes care.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops.kernels import Kernel
from tileops.norm.kernels.channels import (
    GroupNormCall,
    GroupNormFwdInterface,
    InstanceNormCall,
    InstanceNormFwdInterface,
)
from tileops.norm.kernels.rows import (
    AdaLayerNormFwdInterface,
    AddLayerNormFwdInterface,
    AddRMSNormFwdInterface,
    LayerNormFwdInterface,
    RMSNormCall,
    RMSNormFwdInterface,
)


class _RowNormKernel(Kernel):
    """Normalisation of rows.

    Args:
        length: what is compiled in of the length of rows.
        dtype: element type.
        eps: added to the variance or mean of squares.
        has_weight: whether there is a weight.
        has_bias: whether there is a bias.
    """

    supported_archs = frozenset({HOPPER})

    centred: ClassVar[bool] = False
    added: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    gated = False
    channels: tuple[int, int, int] | None = None

    def __init__(
        self,
        length: int,
        dtype: torch.dtype,
        eps: float,
        has_weight: bool = True,
        has_bias: bool = False,
    ) -> None:
        super().__init__()
        self.length, self.dtype, self.eps = length, dtype, eps
        self.has_weight, self.has_bias = has_weight, has_bias

    @classmethod
    @abstractmethod
    def length_of(cls, n: int, dtype: torch.dtype) -> int:
        """What is compiled in of rows of `n` elements."""

    @classmethod
    def rows_of(cls, call: Any) -> Hashable:
        """What is compiled in of the shape of a call; the number of rows is none of it."""
        return cls.length_of(call.n, call.dtype)

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], Any]]:
        """One build for each kind of row."""
        bias = () if isinstance(call, RMSNormCall) else (call.has_bias,)
        constants = (cls.rows_of(call), call.dtype, call.eps, call.has_weight, *bias)
        return constants, lambda: cls(*constants)

    def _norm(self) -> Any:
        """What the program computes."""
        from tileops.norm.programs import Channels, Norm

        return Norm(
            dtype_name(self.dtype),
            self.eps,
            self.centred,
            self.has_weight,
            self.has_bias,
            self.added,
            self.adaptive,
            self.gated,
            None if self.channels is None else Channels(*self.channels),
        )


class _OnChipKernel(_RowNormKernel):
    """Normalisation with each row held in registers: every matrix is read or written once.

    What is compiled in of the length of rows is all of it.
    """

    preferred_over = frozenset({"streaming"})

    LONGEST_ROW = 1 << 15
    """Elements of the longest row that the registers of a block hold."""
    _SMALL = 1 << 15  # bytes of a row, of which a multiprocessor has registers for two
    _HELD = 64  # elements a thread holds at most
    _LANES = (128, 256, 512)  # threads of a row that are worth trying

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        """Refuses rows that do not fit."""
        if call.n > cls.LONGEST_ROW:
            return f"holds rows of at most {cls.LONGEST_ROW} elements in registers, not {call.n}"
        return super().refusal(call)

    @classmethod
    def length_of(cls, n: int, dtype: torch.dtype) -> int:
        """All elements."""
        return n

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Two vectors a thread or more, and blocks of at least four warps."""
        vectors = self.length // widest_access(self.length, self.dtype)
        lanes = min(256, 1 << max(1, vectors // 2).bit_length() - 1)
        if self.length > lanes * self._HELD:
            lanes = 512
        return self._config_of(lanes)

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other numbers of threads that can hold a row."""
        others = [lanes for lanes in self._LANES if lanes <= self.length <= lanes * self._HELD]
        configs = [self.default_config, *map(self._config_of, others)]
        return [config for place, config in enumerate(configs) if config not in configs[:place]]

    def _config_of(self, lanes: int) -> Mapping[str, Any]:
        """Two blocks a multiprocessor, one in memory while the other computes, if they fit."""
        resident = 2 if self.length * self.dtype.itemsize <= self._SMALL else 1
        return {"lanes": lanes, "rows": max(1, 128 // lanes), "resident": resident}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_norm_on_chip

        return build_norm_on_chip(self._norm(), self.length, **config).compile(HOPPER)


class _StreamingKernel(_RowNormKernel):
    """Normalisation of rows of any length: later reads of a row mostly hit the caches.

    What is compiled in of the length of rows is the width of an access, a divisor of it.
    """

    @classmethod
    def length_of(cls, n: int, dtype: torch.dtype) -> int:
        """Elements of an access."""
        return widest_access(n, dtype)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory, as far as registers reach."""
        return {"threads": 512 if self.has_bias else 1024, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.norm.programs import build_norm_streaming

        return build_norm_streaming(self._norm(), count=self.length, **config).compile(HOPPER)


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
        length: elements of a row.
        dtype: element type.
        eps: added to the variance.
        gated: whether there is a gate.
    """

    preferred_over = frozenset()
    centred = True
    adaptive = True

    def __init__(self, length: int, dtype: torch.dtype, eps: float, gated: bool) -> None:
        super().__init__(length, dtype, eps, True, True)
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


class _ChannelsKernel(_OnChipKernel):
    """Normalisation of groups of channels, with a weight and a bias for each channel.

    Args:
        channels: groups of a sample, channels of a group, elements of a channel.
        dtype: element type.
        eps: added to the variance.
        has_weight: whether there is a weight.
        has_bias: whether there is a bias.
    """

    preferred_over = frozenset()
    centred = True

    def __init__(
        self,
        channels: tuple[int, int, int],
        dtype: torch.dtype,
        eps: float,
        has_weight: bool,
        has_bias: bool,
    ) -> None:
        _, count, length = channels
        super().__init__(count * length, dtype, eps, has_weight, has_bias)
        self.channels = channels

    @classmethod
    def rows_of(cls, call: GroupNormCall | InstanceNormCall) -> Hashable:
        """How channels lie; the number of samples is none of it."""
        return call.split

    def _normed(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The norm of every group of every sample."""
        return _launch(self.program(), x.view(-1, self.length), None, weight, bias)[0].view(x.shape)


class GroupNormOnChipKernel(_ChannelsKernel, GroupNormFwdInterface):
    """GroupNorm with each group held in registers."""

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every group."""
        return self._normed(x, weight, bias)


class InstanceNormOnChipKernel(_ChannelsKernel, InstanceNormFwdInterface):
    """InstanceNorm by the input's statistics alone, with each channel of a sample in registers."""

    @classmethod
    def refusal(cls, call: InstanceNormCall) -> str | None:
        """Refuses running statistics."""
        if call.has_running:
            return "neither uses nor updates running statistics"
        return super().refusal(call)

    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Normalise every channel of every sample."""
        return self._normed(x, weight, bias)
