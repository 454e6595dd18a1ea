"""Recurrences as serving calls them: whole batches, packed sequences, single tokens."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from tileops.gemm.kernels.blocks import cut
from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.linear_attention.kernels.recurrence import Tokens, log_decay, run, step, unit

Gate = Literal["none", "head", "channel"]
"""What has a log decay of its own."""


@dataclass(frozen=True)
class StateRecurrenceCall(CallSpec):
    """A recurrence over a matrix state.

    Args:
        heads: heads of q and k.
        value_heads: heads of v and of the state, a multiple of `heads`.
        key_dim: channels of q and k.
        value_dim: channels of v.
        scale: factor of q.
        gate: what decays: nothing, a head's whole state, or each channel of its keys.
        is_raw_gate: whether `A_log` and `dt_bias` make the log decay of `g`.
        lower_bound: smallest log decay of a raw gate that a sigmoid bounds; None for a softplus.
        has_delta_rule: whether a token takes up what the state does not hold yet.
        beta_range: 0 where `beta` is taken as it is, else what its sigmoid is multiplied by.
        has_unit_keys: whether q and k are divided by their lengths.
        has_gate_bias: whether a raw gate has a bias.
        has_state: whether sequences begin with states that are given, else with zeros.
        is_v_first: whether states are stored `[V, K]`.
        is_packed: whether sequences are packed into one batch entry.
        dtype: element type of all but the states.
        state_dtype: element type of the states.
        is_long: whether sequences have more tokens than a chunk, packed ones on average, on an
            accelerator.
    """

    heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    scale: float
    gate: Gate
    is_raw_gate: bool
    lower_bound: float | None
    has_delta_rule: bool
    beta_range: int
    has_unit_keys: bool
    has_gate_bias: bool
    has_state: bool
    is_v_first: bool
    is_packed: bool
    dtype: torch.dtype
    state_dtype: torch.dtype
    is_long: bool = False


class StateRecurrenceFwdInterface(KernelInterface):
    """A recurrence over a matrix state."""

    request = StateRecurrenceCall

    @abstractmethod
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
        """Run each sequence from its initial state, in float32; the final one is rounded once.

        For each token in order and each value head `h`, whose query and key head is
        `h // (value_heads / heads)`: `S ← exp(g) S`; `u = beta (v - kᵀ S)` with the delta rule,
        else `u = v`; `S ← S + k uᵀ`; `o = scale * (qᵀ S)`. With `has_unit_keys` q and k are
        multiplied by `rsqrt(Σ x² + 1e-6)`. A raw gate is `-exp(A_log) softplus(g + dt_bias)`, or
        `lower_bound * sigmoid(exp(A_log) (g + dt_bias))`. All tensors are of any strides and only
        read; all but `cu_seqlens_cpu` are on `call.device`.

        Args:
            q: `[B, S, heads, key_dim]` in `call.dtype`.
            k: `[B, S, heads, key_dim]` in `call.dtype`.
            v: `[B, S, value_heads, value_dim]` in `call.dtype`.
            g: `[B, S, value_heads]`, or `[B, S, value_heads, key_dim]` for each channel, in
                `call.dtype`; None without a gate.
            beta: `[B, S, value_heads]` in `call.dtype`; None without the delta rule.
            initial_state: `[N, value_heads, key_dim, value_dim]` in `call.state_dtype`, the last
                two axes swapped where `call.is_v_first`, `N` being `B` unless packed; None unless
                `call.has_state`.
            cu_seqlens: `[N + 1]` int64, where the sequences begin in the one batch entry, from 0 to
                `S`, never decreasing; None unless `call.is_packed`. On an accelerator it is not
                read back to the host.
            cu_seqlens_cpu: the same on the CPU, for planning; None where the caller has none.
            A_log: `[value_heads]` float32; None unless `call.is_raw_gate`.
            dt_bias: `[value_heads]`, or `[value_heads * key_dim]` for each channel, float32; None
                unless `call.has_gate_bias`.

        Returns:
            New contiguous tensors: `o` `[B, S, value_heads, value_dim]` in `call.dtype`; the final
            states, in `call.state_dtype`, of the initial states' shape, which are the initial ones
            where a sequence is empty. `B`, `S` and `N` vary between calls.
        """


class StateRecurrencePortableKernel(
    PortableKernel[StateRecurrenceCall], StateRecurrenceFwdInterface
):
    """The recurrence by torch, chunk by chunk."""

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
        tokens = self._tokens(q, k, v, self._log_decay(v, g, A_log, dt_bias), beta)
        state = self._first_states(v, initial_state, cu_seqlens)
        if v.shape[1] == 0:
            out, state = tokens.v, state.clone()
        elif cu_seqlens is None:
            out, state = run(tokens, state)
        elif v.device.type == "cpu":
            out, state = self._by_sequence(tokens, state, cu_seqlens.tolist())
        else:
            out, state = self._by_block(tokens, state, cu_seqlens)
        stored = state.mT if self.call.is_v_first else state
        final = stored.to(self.call.state_dtype).contiguous()
        return out.transpose(1, 2).to(v.dtype).contiguous(), final

    def _tokens(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor | None) -> Tokens:
        """All tokens as float32 `[B, value_heads, S, ·]`, every flag applied."""
        group = self.call.value_heads // self.call.heads
        wide = _wide(v)
        q, k = q.to(wide), k.to(wide)
        if self.call.has_unit_keys:
            q, k = unit(q), unit(k)
        q, k = (part.repeat_interleave(group, 2) for part in (q * self.call.scale, k))
        if beta is not None:
            beta = beta.to(wide)[..., None]
            beta = beta.sigmoid() * self.call.beta_range if self.call.beta_range else beta
        return Tokens(q, k, v.to(wide), g, beta).mapped(lambda field: field.transpose(1, 2))

    def _log_decay(
        self, v: Tensor, g: Tensor | None, a_log: Tensor | None, dt_bias: Tensor | None
    ) -> Tensor:
        """The log decay of each token, `[B, S, value_heads, 1 or key_dim]`."""
        if g is None:
            return torch.zeros(*v.shape[:3], 1, dtype=_wide(v), device=v.device)
        gate = g.to(_wide(v))
        if self.call.gate == "head":
            gate = gate[..., None]
        if a_log is None:
            return gate
        bias = None if dt_bias is None else dt_bias.view(gate.shape[2:])
        return log_decay(gate, a_log[:, None], bias, self.call.lower_bound)

    def _first_states(self, v: Tensor, initial: Tensor | None, cu_seqlens: Tensor | None) -> Tensor:
        """The state before each sequence, `[N, value_heads, key_dim, value_dim]`."""
        if initial is not None:
            initial = initial.to(_wide(v))
            return initial.mT if self.call.is_v_first else initial
        count = v.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        shape = (count, self.call.value_heads, self.call.key_dim, self.call.value_dim)
        return torch.zeros(shape, dtype=_wide(v), device=v.device)

    @staticmethod
    def _by_sequence(tokens: Tokens, state: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        """Packed sequences one after the other."""
        parts = [
            run(tokens.rows(slice(start, stop)), first[None])
            for (start, stop), first in zip(pairwise(starts), state, strict=True)
        ]
        read, last = zip(*parts, strict=True)
        return torch.cat(read, 2), torch.cat(last)

    @staticmethod
    def _by_block(tokens: Tokens, state: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        """Packed sequences in blocks of one sequence each, as many as any lengths may need.

        Blocks follow each other, each from the state of the one before or, where a sequence
        begins, from that sequence's own. A place without a token has a key of 0 and no decay.
        """
        starts, length = cu_seqlens[:-1], tokens.q.shape[2]
        blocks = cut(starts, cu_seqlens[1:], length, tokens.chunk)
        begins = torch.ones_like(blocks.group, dtype=torch.bool)
        begins[1:] = blocks.group[1:] != blocks.group[:-1]
        gap = ~blocks.holds[:, None, :, None]
        placed = tokens.mapped(  # [blocks, heads, places, ·]
            lambda field: field[0][:, blocks.row].transpose(0, 1).masked_fill(gap, 0)
        )
        final, read = state.clone(), []
        current = state[:1]
        for number in range(blocks.group.numel()):
            sequence = blocks.group[number : number + 1]
            current = torch.where(begins[number], state.index_select(0, sequence), current)
            out, current = step(placed.block(number), current)
            final.index_copy_(0, sequence, current)
            read.append(out)
        rows = torch.cat(read).transpose(1, 2).flatten(0, 1).index_select(0, blocks.place)
        return rows.transpose(0, 1)[None], final


def _wide(x: Tensor) -> torch.dtype:
    """The dtype of the arithmetic on tensors of the dtype of `x`."""
    return torch.promote_types(x.dtype, torch.float32)
