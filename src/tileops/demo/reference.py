"""The same model in plain PyTorch, written from its definition alone.

Sentences stand in a padded batch under a mask, where the model under test packs them without
padding; so the two can agree only by being right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F


def embed(
    weights: Mapping[str, torch.Tensor],
    token_ids: Sequence[Sequence[int]],
    *,
    layers: int,
    heads: int,
    eps: float,
) -> torch.Tensor:
    """Unit-length sentence embeddings of a BERT encoder with mean pooling.

    Args:
        weights: the tensors by the names of the published model.
        token_ids: the tokens of each sentence.
        layers: number of encoder layers.
        heads: attention heads of each.
        eps: epsilon of every layer norm.

    Returns:
        `[sentences, hidden]` in the dtype of the weights.
    """
    longest = max(len(ids) for ids in token_ids)
    padded = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in token_ids])
    mask = torch.tensor([[i < len(ids) for i in range(longest)] for ids in token_ids])

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(
            x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps
        )

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], heads, -1).transpose(1, 2)

    x = (
        F.embedding(padded, weights["embeddings.word_embeddings.weight"])
        + weights["embeddings.position_embeddings.weight"][:longest]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = norm(x, "embeddings.LayerNorm")
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        q, k, v = (split(linear(x, f"{layer}.attention.self.{part}"))
                   for part in ("query", "key", "value"))  # fmt: skip
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask[:, None, None, :], -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        attended = linear(mixed, f"{layer}.attention.output.dense")
        x = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = F.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    kept = mask.unsqueeze(-1).to(x.dtype)
    pooled = (x * kept).sum(1) / kept.sum(1)
    return F.normalize(pooled, dim=-1)
