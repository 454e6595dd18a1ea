"""Gated delta rules by a device program that takes 64 tokens at a time to the tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.scratch import scratch
from tileops.linear_attention.kernels.device import DeviceRecurrenceKernel
from tileops.linear_attention.kernels.recurrence import CHUNK
from tileops.linear_attention.kernels.serving import StateRecurrenceCall

_KEYS = (64, 128)  # channels of a key, whose part of the state a warpgroup's registers hold
_COLUMNS = 64  # of the state that a block keeps
_MATRICES, _FACTORS = 3, 4  # that the program keeps of a chunk and of its tokens


class StateRecurrenceChunksKernel(DeviceRecurrenceKernel):
    """Delta rules in chunks on the tensor cores, float32 numbers as sums of two of 16 bits.

    One launch inverts the systems of all chunks, the next carries the states through them. Between
    them 25 KiB are kept of each chunk and value head. With float16, what tokens take up and the
    states between chunks must lie within its range.
    """

    preferred_over = frozenset({"tokens"})

    @classmethod
    def refusal(cls, call: StateRecurrenceCall) -> str | None:
        """Refuses what is no delta rule of whole heads, few tokens, and other channels."""
        if call.dtype not in (torch.float16, torch.bfloat16):
            return f"multiplies float16 and bfloat16, not {dtype_name(call.dtype)}"
        if call.state_dtype is not torch.float32:
            return f"keeps states in float32, not {dtype_name(call.state_dtype)}"
        if not call.has_delta_rule or call.gate == "channel":
            return "solves delta rules whose heads decay as a whole or not at all"
        if call.is_packed:
            return "takes sequences of one length, not packed ones"
        if not call.is_long:
            return f"pays for more than {CHUNK} tokens only"
        if call.key_dim not in _KEYS:
            return f"holds keys of 64 or 128 channels, not {call.key_dim}"
        if call.value_dim % _COLUMNS:
            return f"shares values of {_COLUMNS}, of which {call.value_dim} is no multiple"
        return super().refusal(call)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.linear_attention.programs import Recurrence, build_chunks

        dtypes = dtype_name(self.dtype), dtype_name(self.state_dtype)
        return build_chunks(Recurrence(*dtypes, **self.facts)).compile(HOPPER)

    def _launch(self, given: list[Tensor], o: Tensor, last: Tensor) -> None:
        *tokens, _, first = given
        places = o.shape[0] * o.shape[2] * -(-o.shape[1] // CHUNK)
        shapes = (places, _MATRICES, CHUNK, CHUNK), (places, _FACTORS, CHUNK)
        kept = scratch(o.device, *shapes, dtypes=(o.dtype, torch.float32))
        self.program()(*tokens, first, *kept, o, last)
