"""The model's files, read once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from tileops.demo.weights import EncoderConfig, ModelFiles, load_config, load_weights, locate


@pytest.fixture(scope="session")
def files() -> ModelFiles:
    return locate()


@pytest.fixture(scope="session")
def config(files: ModelFiles) -> EncoderConfig:
    return load_config(files.config)


@pytest.fixture(scope="session")
def weights(files: ModelFiles) -> Mapping[str, torch.Tensor]:
    return load_weights(files.weights)
