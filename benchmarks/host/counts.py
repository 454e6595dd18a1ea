"""Instructions that functions execute, counted by callgrind: the same on a busy machine.

`count` runs this module under valgrind in a process of its own, since only a process that runs
there from its start can be counted; counting is switched on when all is warm.

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


def is_available() -> bool:
    """Whether instructions can be counted here."""
    return shutil.which("valgrind") is not None and shutil.which("callgrind_control") is not None


def count() -> dict[str, dict[str, float]]:
    """Instructions of one call of each function, by subject and name.

    Raises:
        RuntimeError: the counting process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
            f"--callgrind-out-file={folder}/counts", sys.executable, __file__,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"callgrind failed:\n{done.stderr[-2000:]}")
        names = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("count")]
        totals = [_total(Path(folder, f"counts.{number}")) for number in range(1, len(names) + 1)]
    floor = totals[0]
    found: dict[str, dict[str, float]] = {}
    for (subject, name), total in zip(names[1:], totals[1:], strict=True):
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
    for names, function in functions.items():
        repeat(function)
        torch._C._valgrind_toggle()
        repeat(function)
        torch._C._valgrind_toggle_and_dump_stats()
        print("count", *names, flush=True)


def _main() -> None:
    import gc

    import torch
    from calls import functions_of, subjects
    from steps import steps_of

    torch.set_num_threads(1)
    gc.disable()
    functions: dict[tuple[str, str], Callable[[], Any]] = {("none", "none"): lambda: None}
    for name, subject in subjects("cpu").items():
        compared = {**functions_of(subject), **steps_of(subject)}
        functions |= {(name, label): function for label, function in compared.items()}
    _run(functions)


if __name__ == "__main__":
    _main()
