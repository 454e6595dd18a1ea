"""Every test here runs once for each implemented spec, over calls drawn from the spec alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tileops

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _poisoned(poisoned_memory: None) -> None:
    """What a kernel does not write shows."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`op` runs over the names of all implemented specs."""
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", tileops.list_ops(status="implemented"))
