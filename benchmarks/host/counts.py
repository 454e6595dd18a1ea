"""Instructions that functions execute, counted by callgrind: the same on a busy machine.

`count` runs this module under valgrind in a process of its own, since only a process that runs
there from its start can be counted; counting is switched on when all is warm. Each function is
counted more than once and the least is taken: now and then an allocator grows within a run.

    python benchmarks/host/counts.py     # the child; prints nothing without valgrind
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CALLS = 20
ROUNDS = 2
NOTHING = ("nothing", "nothing")
"""Names the function that does nothing, whose count is part of all others."""


def is_available() -> bool:
    """Whether instructions can be counted here."""
    return shutil.which("valgrind") is not None and shutil.which("callgrind_control") is not None


def count(padding: int = 0) -> dict[str, dict[str, float]]:
    """Instructions of one call of each function, by subject and name.

    Args:
        padding: bytes added to the environment of the process, which move all that lies beside it.

    Raises:
        RuntimeError: the counting process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
            f"--callgrind-out-file={folder}/counts", sys.executable, __file__,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        environment["PADDING"] = "-" * padding
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"callgrind failed:\n{done.stderr[-2000:]}")
        listed = [(subject, name) for subject, name in map(str.split, done.stdout.splitlines())]
        totals = [_total(Path(folder, f"counts.{number}")) for number in range(1, len(listed) + 1)]
    least: dict[tuple[str, str], int] = {}
    for names, total in zip(listed, totals, strict=True):
        least[names] = min(total, least.get(names, total))
    floor = least.pop(NOTHING)
    found: dict[str, dict[str, float]] = {}
    for (subject, name), total in least.items():
        found.setdefault(subject, {})[name] = (total - floor) / CALLS
    return found


def _total(path: Path) -> int:
    match = re.search(r"^totals: (\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    return int(match.group(1))


def _run(functions: Mapping[tuple[str, str], Callable[[], Any]]) -> None:
    """Execute what the parent counts: a dump per function, named on the standard output."""
    import torch

    def repeat(function: Callable[[], Any]) -> None:
        for _ in range(CALLS):
            function()

    for function in functions.values():
        repeat(function)
    subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    for names, function in [*functions.items()] * ROUNDS:
        repeat(function)
        torch._C._valgrind_toggle()
        repeat(function)
        torch._C._valgrind_toggle_and_dump_stats()
        print(*names, flush=True)


def _main() -> None:
    import gc

    import torch
    from calls import functions_of, subjects
    from steps import steps_of

    torch.set_num_threads(1)
    gc.disable()
    functions: dict[tuple[str, str], Callable[[], Any]] = {NOTHING: lambda: None}
    for name, subject in subjects("cpu").items():
        compared = {**functions_of(subject), **steps_of(subject)}
        functions |= {(name, label): function for label, function in compared.items()}
    _run(functions)


if __name__ == "__main__":
    _main()
