"""Makes the helpers beside the tests importable, and gives examples a world of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty folder to run in; specs, backends and modules that come go with the test."""
    from tileops._core.spec import registry as specs
    from tileops._core.targets import loading
    from tileops._core.targets import registry as backends

    loading.ensure_loaded()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(specs, "_manifest", specs.manifest())
    saved, before = replace(backends.current), set(sys.modules)
    yield
    backends.current = replace(saved, version=backends.current.version + 1)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
