"""The public surface is what docs/api.md lists, and `__all__` is what the specs say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import tileops
from tileops import manifest

BLOCK = re.compile(r"```text public (?P<module>[\w.]+)\n(?P<names>.*?)```", re.DOTALL)
MODULES = ("tileops", "tileops.manifest", "tileops.manifest.primitives", "tileops.kernels",
           "tileops.backend", "tileops.errors")  # fmt: skip


def documented(root: Path) -> dict[str, set[str]]:
    """Public names by module, from the marked blocks of docs/api.md."""
    text = (root / "docs" / "api.md").read_text(encoding="utf-8")
    return {match["module"]: set(match["names"].split()) for match in BLOCK.finditer(text)}


def test_every_public_module_is_documented(root: Path) -> None:
    assert set(documented(root)) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_facade_names_equal_the_documented_ones(root: Path, module: str) -> None:
    loaded = importlib.import_module(module)
    assert set(loaded.__all__) == documented(root)[module]
    assert all(hasattr(loaded, name) for name in loaded.__all__)


@pytest.mark.parametrize("family", tileops.FAMILIES)
def test_a_family_exports_its_implemented_specs(family: str) -> None:
    implemented = {
        name
        for name, spec in manifest.specs().items()
        if spec.family == family and spec.status == "implemented" and spec.in_tree
    }
    module = importlib.import_module(f"tileops.{family}")
    assert set(module.__all__) == implemented


def test_ops_holds_every_family(root: Path) -> None:
    ops = importlib.import_module("tileops.ops")
    expected = set()
    for family in tileops.FAMILIES:
        module = importlib.import_module(f"tileops.{family}")
        expected |= set(module.__all__)
        assert all(getattr(ops, name) is getattr(module, name) for name in module.__all__)
    assert set(ops.__all__) == expected
