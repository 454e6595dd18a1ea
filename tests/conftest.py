"""What tests of several areas share; nothing here imports torch unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fresh memory holds NaN (or the largest integer), so that what is not written shows."""
    from tileops.testing.memory import poisoned

    with poisoned():
        yield
