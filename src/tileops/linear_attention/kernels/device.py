"""What device programs of recurrences share: builds, tensors as they take them, results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER
from tileops._kernels.alignment import aligned
from tileops.kernels import Kernel
from tileops.linear_attention.kernels.serving import (
    StateRecurrenceCall,
    StateRecurrenceFwdInterface,
)

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


class DeviceRecurrenceKernel(Kernel, StateRecurrenceFwdInterface):
    """A recurrence by a device program, one build for each set of facts but the number of tokens.

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
    def entry_for(cls, call: StateRecurrenceCall) -> tuple[Hashable, Callable[[], Any]]:
        """One build for each set of facts."""
        facts = {name: getattr(call, name) for name in _FACTS}
        dtypes = call.dtype, call.state_dtype
        return (*dtypes, *facts.values()), lambda: cls(*dtypes, facts)

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
        self._launch([last if x is None else aligned(x.contiguous()) for x in given], o, last)
        return o, last

    @abstractmethod
    def _launch(self, given: list[Tensor], o: Tensor, last: Tensor) -> None:
        """Run the program.

        Args:
            given: q, k, v, g, beta, A_log, dt_bias, cu_seqlens and the initial state, contiguous
                and aligned; `last` in the place of what there is not.
            o: what is read at each token; written.
            last: the states after the last tokens; written.
        """

    def _last_states(self, v: Tensor, cu_seqlens: Tensor | None) -> Tensor:
        """Where the states after the last tokens go."""
        count = v.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        shape = self.facts["key_dim"], self.facts["value_dim"]
        shape = shape[::-1] if self.facts["is_v_first"] else shape
        return v.new_empty(count, self.facts["value_heads"], *shape, dtype=self.state_dtype)
