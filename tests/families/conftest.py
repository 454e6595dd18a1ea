"""Poisoned memory, random data and stated tolerances for the numeric tests of the families."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
"""Absolute and relative tolerance against a float64 reference rounded to the dtype."""

Draw = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def _poisoned(poisoned_memory: None) -> None:
    """What a kernel does not write shows."""


@pytest.fixture
def draw() -> Draw:
    """Standard normal data from a fixed seed, `draw(*shape, dtype=…)`."""
    generator = torch.Generator().manual_seed(20)

    def make(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    return make


@pytest.fixture
def close() -> Callable[[Tensor, Tensor], None]:
    """Assert that a result equals its reference to within the tolerance of its dtype."""

    def check(actual: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
        bound = TOLERANCE.get(actual.dtype, 0.0) if tolerance is None else tolerance
        torch.testing.assert_close(actual, expected, rtol=bound, atol=bound, equal_nan=True)
        assert actual.is_contiguous()

    return check
