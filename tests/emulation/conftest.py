"""Runs kernels on the emulated device, where TileLang and a C++ compiler are at hand.

Without them this folder's tests are not collected, and the summary says so.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

_MISSING = [
    text
    for text, missing in (
        ("TileLang is not installed (`pip install tileops[cuda]`)", find_spec("tilelang") is None),
        ("there is no g++", shutil.which("g++") is None),
        ("the emulator runs on x86-64", platform.machine() not in ("x86_64", "AMD64")),
    )
    if missing
]
_NO_ASSEMBLER = shutil.which("nvcc") is None
collect_ignore_glob = ["*"] if _MISSING else ["test_assembly.py"] if _NO_ASSEMBLER else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.write_line(f"tests/emulation not collected: {'; '.join(_MISSING)}")
    elif _NO_ASSEMBLER:
        terminalreporter.write_line("test_assembly.py not collected: there is no nvcc")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("tilelang")


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest) -> Path:
    """The folder of compiled kernels, which outlives a run."""
    return Path(request.config.cache.mkdir("emulator"))


class Hopper:
    """The emulated device, as kernels meet it.

    Attributes:
        schedule: of the runs that follow.
        lowered: the programs that were compiled.
    """

    def __init__(self, folder: Path) -> None:
        from emulation.emulator import SCHEDULES, Lowered

        self._folder = folder
        self.schedule = SCHEDULES[0]
        self.lowered: list[Lowered] = []

    def compile(self, program: Any, arch: int) -> Callable[..., None]:
        """Stands in for a program's compilation."""
        from emulation.emulator import Emulator, lower

        self.lowered.append(lower(program, arch))
        emulator = Emulator(self.lowered[-1], self._folder)
        return lambda *tensors: emulator.run(*tensors, schedule=self.schedule)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch, compiled: Path) -> Iterator[Hopper]:
    """Makes kernels believe in a Hopper device, and run on the emulated one.

    Memory that `torch.empty` gives holds NaN, so that what a kernel leaves unwritten is seen.
    """
    from tileops._core.dispatch import kernel
    from tileops._core.dispatch.facts import DeviceFacts
    from tileops._programs.program import Program

    device = Hopper(compiled)

    def compile_emulated(program: Program, arch: int) -> Callable[..., None]:
        return device.compile(program, arch)

    facts = DeviceFacts(arch=90, sm_count=132, calibration="h200", smem_budget=227 * 1024)
    monkeypatch.setattr(kernel, "device_facts", lambda _: facts)
    monkeypatch.setattr(Program, "compile", compile_emulated)
    torch.use_deterministic_algorithms(True)
    yield device
    torch.use_deterministic_algorithms(False)
