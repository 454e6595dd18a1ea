"""The reference against two things that share no code with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import nn

from tileops.demo import reference
from tileops.demo.weights import EncoderConfig, ModelFiles, tokenize

SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
# Cosine similarities that the model's publishers print for these sentences.
PUBLISHED = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]


@pytest.fixture(scope="module")
def token_ids(files: ModelFiles) -> list[tuple[int, ...]]:
    return [tokens.ids for tokens in tokenize(files.tokenizer, SENTENCES)]


def embed(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig, token_ids: Sequence[Sequence[int]]
) -> torch.Tensor:
    return reference.embed(
        weights,
        token_ids,
        layers=config.layers,
        heads=config.heads,
        eps=config.layer_norm_eps,
    )


def torch_encoder_layer(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig, number: int
) -> nn.TransformerEncoderLayer:
    """Torch's own encoder layer with the weights of one of the model's."""
    name = f"encoder.layer.{number}"
    inner = weights[f"{name}.intermediate.dense.weight"].shape[0]
    layer = nn.TransformerEncoderLayer(
        config.hidden,
        config.heads,
        inner,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        dtype=torch.float64,
    )
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    for kind, packed in (
        ("weight", layer.self_attn.in_proj_weight),
        ("bias", layer.self_attn.in_proj_bias),
    ):
        packed.data = torch.cat([weights[f"{part}.{kind}"] for part in parts]).double()
    for ours, theirs in (
        ("attention.output.dense", layer.self_attn.out_proj),
        ("attention.output.LayerNorm", layer.norm1),
        ("intermediate.dense", layer.linear1),
        ("output.dense", layer.linear2),
        ("output.LayerNorm", layer.norm2),
    ):
        theirs.weight.data = weights[f"{name}.{ours}.weight"].double()
        theirs.bias.data = weights[f"{name}.{ours}.bias"].double()
    return layer.eval()


def test_similarities_are_the_published_ones(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig, token_ids: list[tuple[int, ...]]
) -> None:
    embeddings = embed(weights, config, token_ids)
    torch.testing.assert_close(
        embeddings @ embeddings.T, torch.tensor(PUBLISHED), rtol=0, atol=6e-5
    )


@torch.no_grad()
def test_embeddings_equal_those_of_torch_layers_in_float64(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig, token_ids: list[tuple[int, ...]]
) -> None:
    layers = [torch_encoder_layer(weights, config, number) for number in range(config.layers)]
    expected = []
    for ids in token_ids:
        x = (
            weights["embeddings.word_embeddings.weight"][list(ids)]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        ).double()
        norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps, dtype=torch.float64)
        norm.weight.data = weights["embeddings.LayerNorm.weight"].double()
        norm.bias.data = weights["embeddings.LayerNorm.bias"].double()
        x = norm(x)[None]
        for layer in layers:
            x = layer(x)
        pooled = x[0].mean(0)
        expected.append(pooled / pooled.norm())
    torch.testing.assert_close(
        embed(weights, config, token_ids).double(), torch.stack(expected), rtol=0, atol=1e-6
    )


def test_padding_does_not_leak(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig, token_ids: list[tuple[int, ...]]
) -> None:
    together = embed(weights, config, token_ids)
    alone = torch.cat([embed(weights, config, [ids]) for ids in token_ids])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
