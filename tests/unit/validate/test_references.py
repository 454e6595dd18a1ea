"""What specs say about the outside, and whether anybody can tell."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from tileops._core.validate.references import missing_attribute, missing_of_loaded


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("os.path.join", None),
        ("os.path.no_such", "os.path.no_such"),
        ("json.decoder.JSONDecoder.decode", None),
        ("json.decoder.JSONDecoder.no.such", "json.decoder.JSONDecoder.no"),
        ("json.no_module.name", "json.no_module"),
        ("no_such_package_at_all.thing", None),
    ],
)
def test_the_longest_module_decides(path: str, missing: str | None) -> None:
    assert missing_attribute(path) == missing


def test_a_package_that_cannot_be_imported_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_pack.py").write_text("raise RuntimeError('no driver')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert missing_attribute("broken_pack.thing") is None
    assert "broken_pack" not in sys.modules


def test_a_package_that_lacks_a_dependency_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needing_pack.py").write_text("import no_such_dependency", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert missing_attribute("needing_pack.thing") is None


def test_a_module_without_spec_is_judged_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("bare_pack")
    module.thing = 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bare_pack", module)
    assert missing_attribute("bare_pack.thing") is None
    assert missing_attribute("bare_pack.other") == "bare_pack.other"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("os.path.join", None),
        ("os.path.no_such", "os.path.no_such"),
        ("touchy.trap.thing", None),
        ("touchy.plain.thing", "touchy.plain.thing"),
        ("no_such_package_at_all.thing", None),
    ],
)
def test_a_spec_from_outside_has_nothing_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, missing: str | None
) -> None:
    (tmp_path / "touchy").mkdir()
    (tmp_path / "touchy" / "__init__.py").write_text("plain = 1", encoding="utf-8")
    (tmp_path / "touchy" / "trap.py").write_text("raise AssertionError", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("touchy")
    assert missing_of_loaded(path) == missing
    assert "touchy.trap" not in sys.modules
    del sys.modules["touchy"]


def test_a_package_that_cannot_be_searched_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("unsearchable")
    package.__path__ = [3]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "unsearchable", package)
    package.__spec__ = None
    monkeypatch.setattr(importlib.util, "find_spec", lambda path: 1 // 0)
    assert missing_of_loaded("unsearchable.part") is None
