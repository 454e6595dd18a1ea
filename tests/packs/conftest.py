"""Packs on the path and in the metadata, as if installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tileops._core.spec import registry

sys.path.insert(0, str(Path(__file__).parent))

Install = Callable[..., None]


@pytest.fixture
def install(
    fresh_registry: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Install]:
    """Write files below a folder on the path, and name entry points of group `tileops.ops`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(files: dict[str, str], **points: str) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = [EntryPoint(name, value, registry.GROUP) for name, value in points.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: found)

    yield write
    for name in set(sys.modules) - before:
        if (tmp_path / name.partition(".")[0]).exists():
            del sys.modules[name]
