"""The TileLang kernel that CONTRIBUTING adds to a family passes its case there."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from emulation import test_kernels as of_the_tree

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^```python append (?:src|tests)/(?P<file>\S+)\.py\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def test_kernel_of_contributing(
    tmp_path: Path, hopper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: dict[str, str] = {}
    for block in BLOCK.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        there = ROOT / "src" / f"{block['file']}.py"
        before = there.read_text(encoding="utf-8") if there.exists() else ""
        texts[block["file"]] = texts.get(block["file"], before) + block["body"]
    for name in ("transform/programs", "transform/kernels"):
        load(f"tileops/{name}", texts, tmp_path, monkeypatch)
    cases = load("emulation/cases/transform", texts, tmp_path, monkeypatch).CASES
    for case in cases:
        generator = torch.Generator().manual_seed(0)
        of_the_tree.test_kernel_gives_the_references_result(case, generator, hopper)


def load(name: str, texts: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module as the document leaves it, in the place of that of the tree."""
    path = folder / f"{Path(name).name}_of_{Path(name).parent.name}.py"
    path.write_text(texts[name], encoding="utf-8")
    full = name.replace("/", ".")
    specification = importlib.util.spec_from_file_location(full, path)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, full, module)
    specification.loader.exec_module(module)
    return module
