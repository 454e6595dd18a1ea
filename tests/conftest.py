"""What tests of several areas share; nothing here imports torch unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tileops._core.spec.manifest import Manifest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What was measured and tuned on this machine before decides no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEOPS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fresh memory holds NaN (or the largest integer), so that what is not written shows."""
    from tileops.testing.memory import poisoned

    with poisoned():
        yield


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest as in a new process, with no entry points; the shared one comes back after."""
    from tileops._core import owners
    from tileops._core.spec import registry

    for table in ("_points", "_failures"):
        monkeypatch.setattr(owners, table, {})
    monkeypatch.setattr(registry, "_manifest", None)
    for table in ("_points", "_pending", "_loadings", "_unsaid", "_unsettled", "_registered"):
        monkeypatch.setattr(registry, table, [])
    monkeypatch.setattr(registry, "entry_points", lambda group: [])


@pytest.fixture(scope="session")
def tree_manifest() -> Manifest:
    """The specs of the tree, read once for all tests."""
    from importlib.resources import files

    from tileops import FAMILIES
    from tileops._core.spec.manifest import Manifest
    from tileops._core.spec.tree import Tree

    return Manifest(tree=Tree(files("tileops"), FAMILIES))


@pytest.fixture
def tree_only(
    fresh_registry: None, tree_manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specs of the tree and no others, already read; the test's own go with it."""
    from tileops._core.spec import registry

    monkeypatch.setattr(registry, "_manifest", tree_manifest)
