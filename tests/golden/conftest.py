"""Expected generated source, and the option that rewrites it."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite the expected files")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are rewritten instead of compared."""
    return bool(request.config.getoption("--rewrite-golden", default=False))
