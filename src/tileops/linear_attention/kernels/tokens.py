"""Recurrences by a device program that keeps states in registers from token to token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops.linear_attention.kernels.device import DeviceRecurrenceKernel
from tileops.linear_attention.kernels.serving import StateRecurrenceCall

_UNIT = 32  # of which channels are a multiple: lanes of a warp, columns of a block
_MOST_CHANNELS = 256  # of a key, whose part of the state a warp's registers hold


class StateRecurrenceTokensKernel(DeviceRecurrenceKernel):
    """The recurrence token by token, a head's state in registers of several warps.

    A single token costs one pass over the states; many take their time one after the other.
    """

    @classmethod
    def refusal(cls, call: StateRecurrenceCall) -> str | None:
        """Refuses channels that warps do not share or hold, and float64."""
        for dtype in (call.dtype, call.state_dtype):
            if dtype not in (torch.float16, torch.bfloat16, torch.float32):
                return f"takes float16, bfloat16 and float32, not {dtype_name(dtype)}"
        for name in ("key_dim", "value_dim"):
            if getattr(call, name) % _UNIT:
                return f"shares channels of {_UNIT}, of which {getattr(call, name)} is no multiple"
        if call.key_dim > _MOST_CHANNELS:
            return f"holds keys of at most {_MOST_CHANNELS} channels, not {call.key_dim}"
        return super().refusal(call)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.linear_attention.programs import Recurrence, build_tokens

        dtypes = dtype_name(self.dtype), dtype_name(self.state_dtype)
        return build_tokens(Recurrence(*dtypes, **self.facts)).compile(HOPPER)

    def _launch(self, given: list[Tensor], o: Tensor, last: Tensor) -> None:
        self.program()(*given, o, last)
