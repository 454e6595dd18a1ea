"""The decoder of `llama.py` by torch alone: what it is compared with, in results and in speed.

A reference reads a whole text at once (`logits`). For speed there is a cache of fixed length, as a
compiled model wants it: all requests stand at the same position, and keys not yet written are
masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PARTS = (
    ("input_layernorm",),
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("post_attention_layernorm",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""The weights of a layer; those of a group are joined."""


class TorchLlama(nn.Module):
    """A decoder in the shape of Llama 3.

    Args:
        config: the extents, as `llama.Config` has them.
        weights: the tensors of a checkpoint.
    """

    def __init__(self, config: Any, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.config = config
        self.embedding = weights["model.embed_tokens.weight"]
        self.norm, self.head = weights["model.norm.weight"], weights["lm_head.weight"]
        self.layers = [
            [
                torch.cat([weights[f"model.layers.{number}.{part}.weight"] for part in group])
                for group in PARTS
            ]
            for number in range(config.layers)
        ]
        device = self.norm.device
        position = torch.arange(config.max_position, device=device)
        angle = position[:, None] * frequencies(config, device)
        self.cos, self.sin = (table.float()[:, None] for table in (angle.cos(), angle.sin()))
        self.cache: list[tuple[Tensor, Tensor]] = []

    def reserve(self, requests: int, rows: int) -> None:
        """Memory for the keys and values of every layer."""
        shape = (requests, rows, self.config.kv_heads, self.config.head_dim)
        zeros = self.norm.new_zeros
        self.cache = [(zeros(shape), zeros(shape)) for _ in self.layers]

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits behind the last of the tokens `[S]`."""
        tokens = tokens.to(self.cos.device)[None]
        position = torch.arange(tokens.shape[1], device=tokens.device)
        return self._run(tokens, position, None)[0]

    def prefill(self, tokens: Tensor) -> Tensor:
        """Logits behind each row of tokens `[B, S]`, whose keys and values are kept."""
        position = torch.arange(tokens.shape[1], device=tokens.device)
        return self._run(tokens, position, None, keep=True)

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Logits behind tokens `[B, 1]` at one position `[1]`, all that is kept before them."""
        rows = torch.arange(self.cache[0][0].shape[1], device=tokens.device)
        return self._run(tokens, position, (rows <= position)[None], keep=True)

    def compile_layers(self) -> None:
        """Make one graph of a layer, which serves all of them."""
        self._layer = torch.compile(self._layer, fullgraph=True, dynamic=False)  # type: ignore[method-assign]

    def _run(
        self, tokens: Tensor, position: Tensor, mask: Tensor | None, *, keep: bool = False
    ) -> Tensor:
        x = F.embedding(tokens, self.embedding)
        place = self.cos[position], self.sin[position], position
        for number, weights in enumerate(self.layers):
            x = self._layer(x, weights, place, mask, self.cache[number] if keep else None)
        return F.linear(self._norm(x[:, -1], self.norm), self.head)

    def _layer(
        self,
        x: Tensor,
        weights: Sequence[Tensor],
        place: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None,
        kept: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """Attention, then the feed-forward; `weights` in the order of `PARTS`."""
        norm, qkv, out, inner_norm, gate_up, down = weights
        cos, sin, position = place
        heads, kv_heads = self.config.heads, self.config.kv_heads
        rows = F.linear(self._norm(x, norm), qkv).unflatten(-1, (-1, self.config.head_dim))
        q, k, v = rows.split([heads, kv_heads, kv_heads], dim=2)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        if kept is not None:
            for memory, new in zip(kept, (k, v), strict=True):
                memory.index_copy_(1, position, new)
            if mask is not None:
                k, v = kept
        mixed = F.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in (q, k, v)),
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=True,
        )
        x = x + F.linear(mixed.transpose(1, 2).flatten(2), out)
        gate, up = F.linear(self._norm(x, inner_norm), gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self.config.eps)


def frequencies(config: Any, device: torch.device) -> Tensor:
    """What a position turns each pair of channels by: the longer a wave, the more it is slowed."""
    pair = torch.arange(0, config.head_dim, 2, device=device).double()
    plain = config.rope_base ** (-pair / config.head_dim)
    if config.scaling is None:
        return plain
    low, high = config.scaling.low_freq_factor, config.scaling.high_freq_factor
    waves = config.scaling.original_max_position * plain / (2 * torch.pi)  # in the original length
    kept = ((waves - low) / (high - low)).clamp(0, 1)
    return plain * (kept + (1 - kept) / config.scaling.factor)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` `[B, S, H, D]` rotated, in halves."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
