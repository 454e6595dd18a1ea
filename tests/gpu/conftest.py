"""Tests on a CUDA device. Without one they are not collected, and the summary says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

# The libraries' products must be deterministic for memory to be poisoned; read at first use.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

_MISSING = [
    text
    for text, missing in (
        ("there is no CUDA device", not torch.cuda.is_available()),
        ("TileLang is not installed (`pip install tileops[cuda]`)", find_spec("tilelang") is None),
    )
    if missing
]
collect_ignore_glob = ["*"] if _MISSING else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.write_line(f"tests/gpu not collected: {'; '.join(_MISSING)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("gpu")


@pytest.fixture(autouse=True)
def _poisoned(poisoned_memory: None) -> Iterator[None]:
    """What a kernel does not write shows."""
    yield
    torch.cuda.synchronize()  # a fault belongs to the test that caused it


Draw = Callable[..., Tensor]


@pytest.fixture
def draw() -> Draw:
    """Standard normal data on the device from a fixed seed, `draw(*shape, dtype=…)`."""
    generator = torch.Generator("cuda").manual_seed(20)

    def make(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=generator, device="cuda") * scale).to(dtype)

    return make


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are compiled during the test."""
    from tileops._programs.program import Program

    compiled: list[Any] = []
    whole = Program.compile

    def counted(program: Program, arch: int) -> Callable[..., None]:
        compiled.append(program)
        return whole(program, arch)

    monkeypatch.setattr(Program, "compile", counted)
    return compiled


@pytest.fixture
def serving() -> Callable[[Any, str], set[str]]:
    """The names of the kernel classes that served an op, by its interface."""

    def names(op: Any, interface: str) -> set[str]:
        return {kernel.__name__ for kernel, _ in op.built_entries(interface)}

    return names
