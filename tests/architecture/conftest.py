"""The import graph and the folders that the architecture tests look at."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tileops"


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the import package."""
    return PACKAGE


@pytest.fixture(scope="session")
def graph() -> grimp.ImportGraph:
    """Every import at run time, also those inside functions; external packages are leaves."""
    return grimp.build_graph(
        "tileops",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
