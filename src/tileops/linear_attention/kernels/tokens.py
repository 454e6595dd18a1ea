"""Recurrences by a device program that keeps states in registers from token to token."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops.kernels import Kernel
from tileops.linear_attention.kernels.serving import (
    StateRecurrenceCall,
    StateRecurrenceFwdInterface,
)

_UNIT = 32  # of which channels are a multiple: lanes of a warp, columns of a block
_MOST_CHANNELS = 256  # of a key, whose part of the state a warp's registers hold

_FACTS = (
    "heads",
    "value_heads",
    "key_dim",
    "value_dim",
    "scale",
    "gate",
    "is_raw_gate",
    "lower_bound",
    "has_delta_rule",
    "beta_range",
    "has_unit_keys",
    "has_gate_bias",
    "has_state",
    "is_v_first",
    "is_packed",
)


class StateRecurrenceTokensKernel(Kernel, StateRecurrenceFwdInterface):
    """The recurrence token by token, a head's state in registers of several warps.

    A single token costs one pass over the states; many take their time one after the other, less
    than chunks of them in torch's products take.

    Args:
        dtype: element type of all but the states.
        state_dtype: element type of the states.
        facts: fields of the call that the program is made for, by name.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self, dtype: torch.dtype, state_dtype: torch.dtype, facts: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.dtype, self.state_dtype, self.facts = dtype, state_dtype, facts

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

    @classmethod
    def entry_for(
        cls, call: StateRecurrenceCall
    ) -> tuple[Hashable, Callable[[], StateRecurrenceTokensKernel]]:
        """One build for each set of facts but the number of tokens."""
        facts = {name: getattr(call, name) for name in _FACTS}
        dtypes = call.dtype, call.state_dtype
        return (*dtypes, *facts.values()), lambda: cls(*dtypes, facts)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.linear_attention.programs import Recurrence, build_tokens

        dtypes = dtype_name(self.dtype), dtype_name(self.state_dtype)
        return build_tokens(Recurrence(*dtypes, **self.facts)).compile(HOPPER)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor | None,
        beta: Tensor | None,
        initial_state: Tensor | None,
        cu_seqlens: Tensor | None,
        cu_seqlens_cpu: Tensor | None,
        A_log: Tensor | None,  # noqa: N803
        dt_bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Run each sequence."""
        o = torch.empty_like(v, memory_format=torch.contiguous_format)
        last = self._last_states(v, cu_seqlens)
        if v.numel() == 0 or last.numel() == 0:
            return o, last.zero_() if initial_state is None else last.copy_(initial_state)
        given = q, k, v, g, beta, A_log, dt_bias, cu_seqlens, initial_state
        read = (last if part is None else aligned(part.contiguous()) for part in given)
        self.program()(*read, o, last)
        return o, last

    def _last_states(self, v: Tensor, cu_seqlens: Tensor | None) -> Tensor:
        """Where the states after the last tokens go."""
        count = v.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        shape = self.facts["key_dim"], self.facts["value_dim"]
        shape = shape[::-1] if self.facts["is_v_first"] else shape
        return v.new_empty(count, self.facts["value_heads"], *shape, dtype=self.state_dtype)
