"""Gated delta rules by a device program that takes 64 tokens at a time to the tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
from tileops.kernels import Kernel
from tileops.linear_attention.kernels.delta_chunks import DeltaChunksCall, DeltaChunksFwdInterface
from tileops.linear_attention.kernels.device import DeviceRecurrenceKernel
from tileops.linear_attention.kernels.recurrence import CHUNK
from tileops.linear_attention.kernels.serving import StateRecurrenceCall

_KEYS = (64, 128)  # channels of a key, whose part of the state a warpgroup's registers hold
_COLUMNS = 64  # of the state that a block keeps
_MOST_VALUES = 128  # channels of which a block holds all products
_MATRICES, _FACTORS = 3, 4  # that the program keeps of a chunk and of its tokens


class StateRecurrenceChunksKernel(DeviceRecurrenceKernel):
    """Delta rules in chunks on the tensor cores, float32 numbers as sums of two of 16 bits.

    One launch inverts the systems of all chunks, the next carries the states through them. Between
    them 25 KiB are kept of each chunk and value head. Factors of what is only read are rounded.
    With float16, states and what tokens take up must lie within its range.
    """

    preferred_over = frozenset({"tokens"})

    @classmethod
    def refusal(cls, call: StateRecurrenceCall) -> str | None:
        """Refuses what is no delta rule of whole heads, few tokens, and other channels."""
        if refused := _refused_dtype(call):
            return refused
        if call.state_dtype is not torch.float32:
            return f"keeps states in float32, not {dtype_name(call.state_dtype)}"
        if not call.has_delta_rule or call.gate == "channel":
            return "solves delta rules whose heads decay as a whole or not at all"
        if not call.is_long:
            return f"pays for more than {CHUNK} tokens only"
        return _refused_channels(call) or super().refusal(call)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.linear_attention.programs import Recurrence, build_chunks

        dtypes = dtype_name(self.dtype), dtype_name(self.state_dtype)
        return build_chunks(Recurrence(*dtypes, **self.facts)).compile(HOPPER)

    def _launch(self, given: list[Tensor], o: Tensor, last: Tensor) -> None:
        packed = last.shape[0] if self.facts["is_packed"] else 0
        self.program()(*given, *_kept(o, packed), o, last)


class DeltaChunksKernel(Kernel, DeltaChunksFwdInterface):
    """The delta rule as `StateRecurrenceChunksKernel` has it, with what its gradients reuse.

    Args:
        key_dim: channels of a key.
        value_dim: channels of a value.
        dtype: element type of all but the states.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, key_dim: int, value_dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.key_dim, self.value_dim, self.dtype = key_dim, value_dim, dtype

    @classmethod
    def refusal(cls, call: DeltaChunksCall) -> str | None:
        """Refuses other chunks, dtypes and channels."""
        if call.chunk != CHUNK:
            return f"takes {CHUNK} tokens at a time, not {call.chunk}"
        if call.value_dim > _MOST_VALUES:
            return f"keeps products of at most {_MOST_VALUES} channels, not {call.value_dim}"
        return _refused_dtype(call) or _refused_channels(call) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: DeltaChunksCall) -> tuple[Hashable, Callable[[], DeltaChunksKernel]]:
        """One build for each size of head and dtype."""
        arguments = call.key_dim, call.value_dim, call.dtype
        return arguments, lambda: cls(*arguments)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.linear_attention.programs import build_kept_chunks

        program = build_kept_chunks(dtype_name(self.dtype), self.key_dim, self.value_dim)
        return program.compile(HOPPER)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        """Run each head, which is a batch entry of its own."""
        *outer, length, width = v.shape
        heads = [aligned(x.contiguous()).view(-1, length, 1, x.shape[3]) for x in (q, k, v)]
        strengths = aligned(beta.contiguous()).view(-1, length, 1)
        o, u = (torch.empty(v.shape, dtype=v.dtype, device=v.device) for _ in range(2))
        w = torch.empty(k.shape, dtype=v.dtype, device=v.device)
        inverses = [w.new_empty(*outer, length, CHUNK) for _ in range(2)]
        bounds = length // CHUNK + 1
        states = w.new_empty(*outer, bounds, self.key_dim, width, dtype=torch.float32)
        results = heads[2].shape, (-1, bounds, self.key_dim, width)
        by_head = [x.view(shape) for x, shape in zip((o, states), results, strict=True)]
        kept = [x.view(-1, length, x.shape[3]) for x in (*inverses, w, u)]
        self.program()(*heads, strengths, *_kept(heads[2]), *by_head, *kept)
        return o, states, *inverses, w, u


def _refused_dtype(call: StateRecurrenceCall | DeltaChunksCall) -> str | None:
    if call.dtype not in (torch.float16, torch.bfloat16):
        return f"multiplies float16 and bfloat16, not {dtype_name(call.dtype)}"
    return None


def _refused_channels(call: StateRecurrenceCall | DeltaChunksCall) -> str | None:
    if call.key_dim not in _KEYS:
        return f"holds keys of 64 or 128 channels, not {call.key_dim}"
    if call.value_dim % _COLUMNS:
        return f"shares values of {_COLUMNS}, of which {call.value_dim} is no multiple"
    return None


def _kept(v: Tensor, packed: int = 0) -> list[Tensor]:
    """Memory between two launches for all chunks of `[B, S, heads, ·]`, or of packed sequences."""
    slots = v.shape[1] // CHUNK + packed if packed else -(-v.shape[1] // CHUNK)
    places = v.shape[0] * v.shape[2] * slots
    shapes = (places, _MATRICES, CHUNK, CHUNK), (places, _FACTORS, CHUNK)
    return scratch(v.device, *shapes, dtypes=(v.dtype, torch.float32))
