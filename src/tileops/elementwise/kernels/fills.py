"""Kernels that TileLang makes of tensors made of parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.filling import fill, key_of
from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import widest_access
from tileops.elementwise.kernels.generative import (
    AlibiCall,
    AlibiFwdInterface,
    SinusoidalCall,
    SinusoidalFwdInterface,
)
from tileops.kernels import Kernel

_BLOCKS = (1 << 16) - 1  # along the second axis of a launch


class _FillKernel(Kernel):
    """A tensor that is written once and for which nothing is read.

    Args:
        shape: of the tensor.
        dtype: its element type.
        device: where it is made.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None
    ) -> None:
        super().__init__()
        self.shape, self.dtype, self.device = shape, dtype, device
        self._key = key_of(self)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """A thread makes the same columns of several rows."""
        return {"threads": 128, "rows": 8}

    @property
    def _access(self) -> tuple[str, int]:
        """The element type's name, and elements of one access, a divisor of a row."""
        name = dtype_name(self.dtype)
        return name, widest_access(self.shape[-1], self.dtype)

    def forward(self) -> Tensor:
        """Make the tensor."""
        output = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        fill(output, self._key)
        return output


class AlibiTileKernel(_FillKernel, AlibiFwdInterface):
    """The biases, rows of one head together."""

    @classmethod
    def refusal(cls, call: AlibiCall) -> str | None:
        """Refuses more heads than a launch has places for."""
        if call.num_heads > _BLOCKS:
            return f"makes biases of at most {_BLOCKS} heads, not {call.num_heads}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: AlibiCall) -> tuple[Hashable, Callable[[], AlibiTileKernel]]:
        """One build for each tensor: there is no input to tell extents from."""
        shape = (call.num_heads, call.seq_len, call.seq_len)
        constants = (shape, call.dtype, call.device)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise.programs import build_alibi

        return build_alibi(*self._access, **config).compile(HOPPER)


class SinusoidalTileKernel(_FillKernel, SinusoidalFwdInterface):
    """The embeddings, with a thread's frequencies in registers."""

    @classmethod
    def refusal(cls, call: SinusoidalCall) -> str | None:
        """Refuses more positions than a launch has places for."""
        if call.seq_len > _BLOCKS:
            return f"makes embeddings of at most {_BLOCKS} positions, not {call.seq_len}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: SinusoidalCall) -> tuple[Hashable, Callable[[], SinusoidalTileKernel]]:
        """One build for each tensor: there is no input to tell extents from."""
        constants = ((call.seq_len, call.d_model), call.dtype, call.device)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise.programs import build_sinusoidal

        return build_sinusoidal(*self._access, **config).compile(HOPPER)
