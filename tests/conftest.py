"""What tests of several areas share; nothing here imports torch unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fresh memory holds NaN (or the largest integer), so that what is not written shows."""
    import torch

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
