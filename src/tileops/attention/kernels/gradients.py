"""Gradients of attention of a batch: scores are formed again, a block of queries at a time.

Weights are formed again with them, or follow from the normalisers that a forward pass kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from tileops.attention.kernels.dense import DenseAttentionCall
from tileops.attention.kernels.softmax import rotated, visible
from tileops.kernels import CallSpec, KernelInterface, PortableKernel

QUERY_BLOCK = 256
"""Query rows whose scores are held at once."""

Seen: TypeAlias = Callable[[slice], Tensor | None]
"""Which keys each query of a block of queries sees, `[rows, columns]`; None for all."""


class DenseAttentionBwdInterface(KernelInterface):
    """Gradients of softmax attention of a batch.

    With weights `p` of scores `s`, `dp = do · v` and `ds = p (dp - Σ p dp)`: `dv = Σ p do`,
    `dq = sm_scale Σ ds k` and `dk = sm_scale Σ ds q`, where `ds` is multiplied by
    `1 - tanh²(s / softcap)` if scores are bounded. Keys and values add up over a group of heads.
    """

    request = DenseAttentionCall

    @abstractmethod
    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients.

        All tensors are on `call.device`, of any strides, and only read; who sees what, and which
        channels are rotated, is as in the forward interface. A row that sees no key adds nothing.

        Args:
            do: `[B, S_q, heads, head_dim]` in `call.dtype`, which is not float8.
            q: likewise.
            k: `[B, S_kv, kv_heads, head_dim]` in `call.dtype`.
            v: likewise.
            rope_cos: `[S_kv or more, rotary_dim // 2]` in `call.dtype`, indexed by position; None
                unless `call.rotary_dim`.
            rope_sin: likewise.

        Returns:
            `(dq, dk, dv)`, new contiguous tensors of the shapes of q, k and v in `call.dtype`.
            Scores, weights and sums are float32, rounded once. `B`, `S_q` and `S_kv` vary between
            calls.
        """


class DenseAttentionBwdPortableKernel(
    PortableKernel[DenseAttentionCall], DenseAttentionBwdInterface
):
    """The gradients by torch."""

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        rows, columns = q.shape[1], k.shape[1]
        if rope_cos is None or rope_sin is None:
            dq, dk, dv = self._gradients(do, q, k, v)
        else:
            own, every = slice(columns - rows, columns), slice(columns)
            turned_q = self._turned(q, rope_cos[own], rope_sin[own])
            turned_k = self._turned(k, rope_cos[every], rope_sin[every])
            dq, dk, dv = self._gradients(do, turned_q, turned_k, v)
            dq = self._turned(dq, rope_cos[own], -rope_sin[own])
            dk = self._turned(dk, rope_cos[every], -rope_sin[every])
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`x` `[B, S, H, D]` turned by tables `[S, R // 2]`, not rounded."""
        interleaved = self.call.rope_layout == "interleaved"
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return rotated(x, cos.float()[:, None], sin.float()[:, None], interleaved=interleaved)

    def _gradients(
        self, do: Tensor, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of what is multiplied, before they are rounded; contiguous."""
        window = self.call.window_left, 0 if self.call.is_causal else self.call.window_right
        seen = seen_at_the_end(q.shape[1], k.shape[1], window, q.device)
        return SoftmaxGradients(self.call.sm_scale, self.call.softcap).of(do, q, k, v, seen)


def seen_at_the_end(rows: int, columns: int, window: tuple[int, int], device: torch.device) -> Seen:
    """What queries at the last `rows` of `columns` positions see."""
    left, right = window
    if left < 0 and right < 0:
        return lambda _block: None
    position = torch.arange(columns - rows, columns, device=device)
    every = torch.arange(columns, device=device)
    return lambda block: visible(position[block], every, left, right)


class SoftmaxGradients(NamedTuple):
    """Gradients of attention with one scale and one bound of the scores.

    Attributes:
        scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
    """

    scale: float
    softcap: float

    def of(
        self, do: Tensor, q: Tensor, k: Tensor, v: Tensor, seen: Seen
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of queries, keys and values; see `summed_gradients`."""

        def scored(block: slice, products: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
            weights, slope = self._weights(products, seen(block))
            return weights, weights * (inner - (inner * weights).sum(-1, keepdim=True)) * slope

        return summed_gradients(do, q, k, v, scored)

    def _weights(self, products: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor | float]:
        """The weight of each key for each row, and what a score's factor `q · k` moves it by."""
        scale, cap = self.scale, self.softcap
        scores = products * scale
        slope: Tensor | float = scale
        if cap:
            bounded = torch.tanh(scores / cap)
            scores, slope = bounded * cap, (1 - bounded.square()) * scale
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        weights = torch.softmax(scores, -1)
        return weights if seen is None else weights.masked_fill(~seen, 0), slope


@dataclass(frozen=True)
class SavedAttentionBwdCall(CallSpec):
    """Gradients of attention of equally many queries and keys, whose result was kept.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        is_causal: whether a query sees no later key.
        dtype: element type of all tensors but the normalisers.
    """

    heads: int
    kv_heads: int
    head_dim: int
    is_causal: bool
    dtype: torch.dtype


class SavedAttentionBwdInterface(KernelInterface):
    """Gradients of softmax attention of a batch from its result and its normalisers.

    With scores `s = head_dim**-0.5 (q · k)`, weights `p = exp(s - lse)` of the keys that are seen,
    and `ds = p (do · v - do · o)`: `dv = Σ p do`, `dq = head_dim**-0.5 Σ ds k` and
    `dk = head_dim**-0.5 Σ ds q`. Keys and values add up over a group of heads.
    """

    request = SavedAttentionBwdCall

    @abstractmethod
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients.

        All tensors are on `call.device`, of any strides, and only read.

        Args:
            q: `[B, S, heads, head_dim]` in `call.dtype`.
            k: `[B, S, kv_heads, head_dim]` in `call.dtype`.
            v: likewise.
            o: the result, like `q`.
            do: its gradient, like `q`.
            lse: `[B, heads, S]` float32, the logarithm of the sum of the exponentials of the
                scores of each query.

        Returns:
            `(dq, dk, dv)`, new contiguous tensors of the shapes of q, k and v in `call.dtype`.
            Scores, weights and sums are float32, rounded once. `B` and `S` vary between calls.
        """


class SavedAttentionBwdPortableKernel(
    PortableKernel[SavedAttentionBwdCall], SavedAttentionBwdInterface
):
    """The gradients by torch."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        scale, heads = self.call.head_dim**-0.5, _groups(q, k)
        place = torch.arange(q.shape[1], device=q.device)
        shift = (o.float() * do.float()).sum(-1).unflatten(2, heads).permute(0, 2, 3, 1)[..., None]
        normaliser = lse.unflatten(1, heads)[..., None]

        def scored(block: slice, products: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
            weights = torch.exp(products * scale - normaliser[..., block, :])
            if self.call.is_causal:
                weights = weights.masked_fill(place > place[block, None], 0)
            return weights, weights * (inner - shift[..., block, :]) * scale

        dq, dk, dv = summed_gradients(do, q, k, v, scored)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def summed_gradients(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scored: Callable[[slice, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values, before they are rounded; contiguous.

    Args:
        do: the gradient of the result, `[B, S_q, H, D]`.
        q: queries.
        k: keys, `[B, S_kv, H_kv, D]`.
        v: values.
        scored: for a block of queries, of `q · k` and `do · v`, all `[B, H_kv, H / H_kv, block,
            S_kv]`, the weights of the keys and the gradient of `q · k`.
    """
    wide, heads = torch.promote_types(q.dtype, torch.float32), _groups(q, k)
    # Batch, key heads, heads of a group, sequence, channels.
    queries, grads = (x.to(wide).unflatten(2, heads).permute(0, 2, 3, 1, 4) for x in (q, do))
    keys, values = (x.to(wide).transpose(1, 2)[:, :, None] for x in (k, v))
    dq = torch.empty_like(queries, memory_format=torch.contiguous_format)
    dk, dv = (torch.zeros_like(x) for x in (keys, values))
    for start in range(0, q.shape[1], QUERY_BLOCK):
        block = slice(start, start + QUERY_BLOCK)
        rows, grad = queries[..., block, :], grads[..., block, :]
        weights, inner = scored(block, rows @ keys.mT, grad @ values.mT)
        dq[..., block, :] = inner @ keys
        dk += (inner.mT @ rows).sum(2, keepdim=True)
        dv += (weights.mT @ grad).sum(2, keepdim=True)
    dk, dv = (x[:, :, 0].transpose(1, 2).contiguous() for x in (dk, dv))
    return dq.permute(0, 3, 1, 2, 4).flatten(2, 3).contiguous(), dk, dv


def _groups(q: Tensor, k: Tensor) -> tuple[int, int]:
    """Key heads, and query heads of each."""
    return k.shape[2], q.shape[2] // k.shape[2]
