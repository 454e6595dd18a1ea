"""Fixtures of the op layer's tests: an empty backend registry, and packages to load."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from tileops._core import devices, owners
from tileops._core.spec import registry as spec_registry
from tileops._core.targets import loading, registry

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    """A registry of the test's own, loaded with nothing."""
    saved, version = registry.current, registry.current.version
    registry.current = registry.Registry(version=version + 1)
    for table in ("_points", "_failures"):
        monkeypatch.setattr(owners, table, {})
    monkeypatch.setattr(loading, "_loaded", True)
    monkeypatch.setattr(loading, "_current", None)
    monkeypatch.setattr(loading, "_loadings", {})
    yield registry
    saved.version = registry.current.version + 1
    registry.current = saved


@pytest.fixture(autouse=True)
def own_specs(monkeypatch):
    """Specs that a test registers are gone after it."""
    monkeypatch.setattr(spec_registry, "_registered", [])
    monkeypatch.setattr(spec_registry, "_manifest", spec_registry.manifest())


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch):
    """These tests are about a process without one, wherever they run."""
    monkeypatch.setattr(devices, "_known_accelerator", None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_, **__: None)


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Installs packages for the registry to load: name to source."""
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = []
    before = set(sys.modules)

    def install(**sources):
        for name, source in sources.items():
            path = tmp_path / f"{name}.py"
            path.write_text(source)
            entries.append(EntryPoint(name, name, loading.GROUP))
        monkeypatch.setattr(loading, "entry_points", lambda group: list(reversed(entries)))
        monkeypatch.setattr(loading, "_loaded", False)

    yield install
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name.partition('.')[0]}.py").exists():
            del sys.modules[name]
