"""One run of the demo: tokens, embeddings by ops, the check against the reference, a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tileops._core.devices import usable_device
from tileops.demo import reference
from tileops.demo.errors import DemoInputError
from tileops.demo.meter import Meter, OpUse
from tileops.demo.model import SentenceEncoder
from tileops.demo.sentences import check_sentences
from tileops.demo.weights import load_config, load_weights, locate, require, tokenize

DIFFERENCE_LIMIT = 1e-4
"""The largest difference of any embedding component from the reference that passes."""


@dataclass(frozen=True)
class Ranked:
    """A sentence and its cosine similarity with the query."""

    similarity: float
    sentence: str


@dataclass(frozen=True)
class DemoReport:
    """What a run found; `ranking` is by similarity with `query`, the nearest first."""

    device: str
    query: str
    ranking: tuple[Ranked, ...]
    tokens: int
    cut: tuple[str, ...]
    ops: tuple[OpUse, ...]
    largest_difference: float

    @property
    def passed(self) -> bool:
        """Whether the embeddings agree with the reference; a NaN never does."""
        return self.largest_difference <= DIFFERENCE_LIMIT

    @property
    def seconds(self) -> float:
        """Time in ops, all together."""
        return sum(use.seconds for use in self.ops)

    def data(self) -> dict[str, Any]:
        """The report as plain data for JSON; times in seconds."""
        return {
            **asdict(self),
            "seconds": self.seconds,
            "difference_limit": DIFFERENCE_LIMIT,
            "passed": self.passed,
        }


def run_demo(sentences: Sequence[str], device: str = "cpu") -> DemoReport:
    """Embed sentences, rank all but the first against the first, check and measure.

    The model runs twice: the first pass builds kernels, the second is measured.

    Args:
        sentences: the query, then at least one sentence to rank.
        device: a device that torch knows, `"cpu"` or `"cuda"`.

    Returns:
        The report of the second pass.

    Raises:
        DemoInputError: sentences or weights cannot be used, or the device holds no values.
        OpNotAvailableError: this process does not have the device.
    """
    check_sentences(sentences)
    place = usable_device(device)
    if place.type == "meta":
        raise DemoInputError("device meta cannot be used: it holds no values")
    require()
    files = locate()
    config = load_config(files.config)
    weights = load_weights(files.weights)
    tokens = tokenize(files.tokenizer, sentences)
    token_ids = [sentence.ids for sentence in tokens]

    meter = Meter(place)
    encoder = SentenceEncoder(weights, config, place, meter)
    encoder.similarity(encoder.embed(token_ids))
    meter.reset()
    embeddings = encoder.embed(token_ids)
    similarity = encoder.similarity(embeddings)[0].tolist()

    expected = reference.embed(
        weights,
        token_ids,
        layers=config.layers,
        heads=config.heads,
        eps=config.layer_norm_eps,
    )
    ranking = sorted(
        (
            Ranked(value, sentence)
            for value, sentence in zip(similarity[1:], sentences[1:], strict=True)
        ),
        key=lambda ranked: -ranked.similarity,
    )
    return DemoReport(
        device=_device_name(place),
        query=sentences[0],
        ranking=tuple(ranking),
        tokens=sum(len(ids) for ids in token_ids),
        cut=tuple(s for s, coded in zip(sentences, tokens, strict=True) if coded.cut),
        ops=meter.uses(),
        largest_difference=(embeddings.cpu() - expected).abs().max().item(),
    )


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)
