"""The sentence encoder, every layer's arithmetic done by TileOPs ops.

Sentences are packed one after another without padding; `offsets` says where each begins. Rows of
the embedding tables are picked by indexing, which computes nothing. Ops hold no weights, so one
instance of each serves all layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import torch

from tileops.attention import GroupedQueryAttentionVarlenFwdOp
from tileops.demo.errors import DemoInputError
from tileops.demo.meter import Meter
from tileops.demo.weights import EncoderConfig
from tileops.elementwise import AddFwdOp, DivFwdOp, GeluFwdOp
from tileops.gemm import GemmFwdOp
from tileops.norm import LayerNormFwdOp
from tileops.reduction import MeanFwdOp, VectorNormFwdOp


class SentenceEncoder:
    """A BERT encoder with mean pooling and unit-length output.

    Args:
        weights: the tensors by the names of the published model.
        config: the extents of the encoder.
        device: where it runs.
        meter: notes what each op does.
    """

    def __init__(
        self,
        weights: Mapping[str, torch.Tensor],
        config: EncoderConfig,
        device: torch.device,
        meter: Meter,
    ) -> None:
        self._weights = {name: tensor.to(device) for name, tensor in weights.items()}
        self._config = config
        self._device = device
        self._gemm = meter.watch(GemmFwdOp())
        self._add = meter.watch(AddFwdOp())
        self._gelu = meter.watch(GeluFwdOp())
        self._layer_norm = meter.watch(
            LayerNormFwdOp(normalized_shape=[config.hidden], eps=config.layer_norm_eps)
        )
        self._attention = meter.watch(GroupedQueryAttentionVarlenFwdOp(is_causal=False))
        self._mean = meter.watch(MeanFwdOp(dim=0, keepdim=True))
        self._length = meter.watch(VectorNormFwdOp(dim=-1, keepdim=True))
        self._divide = meter.watch(DivFwdOp())

    def embed(self, token_ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Embed sentences.

        Args:
            token_ids: the tokens of each sentence.

        Returns:
            Unit vectors `[sentences, hidden]` in float32.
        """
        starts = list(accumulate((len(ids) for ids in token_ids), initial=0))
        offsets = torch.tensor(starts, dtype=torch.int32, device=self._device)
        x = self._embeddings(token_ids)
        for number in range(self._config.layers):
            x = self._layer(f"encoder.layer.{number}", x, offsets)
        pooled = torch.cat([self._mean(x[start:stop]) for start, stop in pairwise(starts)])
        return self._divide(pooled, self._length(pooled))

    def similarity(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Cosine similarity of all pairs of unit vectors."""
        return self._gemm(embeddings, embeddings)

    def _embeddings(self, token_ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Word, position and segment embeddings of the packed tokens, normalised."""
        words = torch.tensor([word for ids in token_ids for word in ids], device=self._device)
        places = torch.cat([torch.arange(len(ids), device=self._device) for ids in token_ids])
        x = self._add(
            self._weight("embeddings.word_embeddings.weight")[words],
            self._weight("embeddings.position_embeddings.weight")[places],
        )
        x = self._add(x, self._weight("embeddings.token_type_embeddings.weight")[0])
        return self._norm("embeddings.LayerNorm", x)

    def _layer(self, name: str, x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            self._linear(f"{name}.attention.self.{part}", x).view(
                x.shape[0], self._config.heads, -1
            )
            for part in ("query", "key", "value")
        )
        mixed = self._attention(q, k, v, offsets, offsets).flatten(1)
        attended = self._linear(f"{name}.attention.output.dense", mixed)
        x = self._norm(f"{name}.attention.output.LayerNorm", self._add(attended, x))
        inner = self._gelu(self._linear(f"{name}.intermediate.dense", x))
        outer = self._linear(f"{name}.output.dense", inner)
        return self._norm(f"{name}.output.LayerNorm", self._add(outer, x))

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self._add(
            self._gemm(x, self._weight(f"{name}.weight")), self._weight(f"{name}.bias")
        )

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self._layer_norm(x, self._weight(f"{name}.weight"), self._weight(f"{name}.bias"))

    def _weight(self, name: str) -> torch.Tensor:
        try:
            return self._weights[name]
        except KeyError:
            raise DemoInputError(f"the weights lack the tensor {name}") from None
