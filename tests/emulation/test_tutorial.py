"""The TileLang kernel of the tutorial gives the result of the tutorial's reference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
FILE = re.compile(
    r"^```\w+ file (?P<name>softcap/\S+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)


@pytest.fixture
def softcap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package as it stands at the end of the tutorial."""
    for file in FILE.finditer(TUTORIAL.read_text(encoding="utf-8")):
        path = tmp_path / file["name"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(file["body"], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "softcap":
            del sys.modules[name]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_kernel_of_the_tutorial(
    dtype: torch.dtype, softcap: None, hopper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tilelang
    from softcap.hopper import SoftCapVectorKernel
    from softcap.reference import soft_cap

    from tileops._programs.program import Program

    def compile_emulated(function: Any, *, pass_configs: dict[str, Any]) -> Any:
        return hopper.compile(Program(function, pass_configs), 90)

    monkeypatch.setattr(tilelang, "compile", compile_emulated)
    kernel = SoftCapVectorKernel(30.0, dtype)
    for size in (16, 5008):
        x = torch.randn(size, generator=torch.Generator().manual_seed(size)).mul(40).to(dtype)
        torch.testing.assert_close(kernel(x), soft_cap(x, cap=30.0))
