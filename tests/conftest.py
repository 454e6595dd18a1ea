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


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest as in a new process, with no entry points; the shared one comes back after."""
    from tileops._core.spec import registry

    monkeypatch.setattr(registry, "_manifest", None)
    for table in ("_points", "_pending", "_loadings", "_unsaid"):
        monkeypatch.setattr(registry, table, [])
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
