"""Gradients of recurrences over a matrix state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from tileops.kernels import KernelInterface, PortableKernel
from tileops.linear_attention.kernels.serving import (
    StateRecurrenceCall,
    StateRecurrencePortableKernel,
)


class StateRecurrenceBwdInterface(KernelInterface):
    """Gradients of a recurrence over a matrix state, whose states are formed again."""

    request = StateRecurrenceCall

    @abstractmethod
    def forward(
        self,
        do: Tensor,
        dfinal_state: Tensor,
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
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients of all that the forward interface computes with.

        Args:
            do: `[B, S, value_heads, value_dim]` in `call.dtype`, any strides, on `call.device`;
                read.
            dfinal_state: float32, of the final states' shape, likewise; read.
            q: as in the forward interface; read. So are all that follow.
            k: likewise.
            v: likewise.
            g: likewise, or None.
            beta: likewise, or None.
            initial_state: likewise, or None.
            cu_seqlens: likewise, or None.
            cu_seqlens_cpu: likewise, or None.
            A_log: likewise, or None.
            dt_bias: likewise, or None.

        Returns:
            The gradients of `q, k, v, g, beta, initial_state, A_log, dt_bias`, each a new
            contiguous tensor of the shape and dtype of its own, or None where that is None. Sums
            are float32 and rounded once.
        """


class StateRecurrenceBwdPortableKernel(
    PortableKernel[StateRecurrenceCall], StateRecurrenceBwdInterface
):
    """The portable recurrence, differentiated by torch."""

    def __init__(self, call: StateRecurrenceCall) -> None:
        super().__init__(call)
        self._recurrence = StateRecurrencePortableKernel(call)

    def forward(
        self,
        do: Tensor,
        dfinal_state: Tensor,
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
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients."""
        # Autograd must keep tensors, which it does of none that were made in inference mode.
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [_leaf(x) for x in (q, k, v, g, beta, initial_state, A_log, dt_bias)]
            offsets = [_kept(cu_seqlens), _kept(cu_seqlens_cpu)]
            found = self._recurrence.forward(*[*leaves[:6], *offsets, *leaves[6:]])
            present = [leaf for leaf in leaves if leaf is not None]
            # Without tokens the gradient of the state before is that of the state after: a copy.
            arriving = _kept(do), dfinal_state.clone()
            # Without a state before, that after depends on none of the tensors then.
            pairs = [pair for pair in zip(found, arriving, strict=True) if pair[0].requires_grad]
            results, weights = zip(*pairs, strict=True)
            gradients = iter(torch.autograd.grad(results, present, weights, materialize_grads=True))
        return tuple(None if leaf is None else next(gradients).contiguous() for leaf in leaves)


def _kept(x: Any) -> Any:
    """A tensor that autograd may keep; None as it is."""
    if x is None:
        return None
    return x.clone() if x.is_inference() else x.detach()


def _leaf(x: Tensor | None) -> Any:
    """A tensor that gradients are computed of; None as it is."""
    return None if x is None else _kept(x).requires_grad_()
