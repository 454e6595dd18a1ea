"""Runs the tests of every mutant on a package with that fault in it; all must fail.

    python tests/mutants/run.py [WORD …]

Words narrow the run to the mutants whose module or line holds one of them. Each mutant has a
process of its own, forked after torch is imported and before the package is: the faulty source is
compiled in the place of the module's, no file is touched. First the same tests run without a fault.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "mutants")]

from table import MUTANTS, Mutant  # noqa: E402

PACKAGE = ROOT / "src" / "tileops" / "_core"
PROCESSES = 2
LIMIT = 60.0
"""Seconds for one mutant; one that hangs is noticed too."""


def places(mutant: Mutant) -> list[int]:
    """The numbers of the lines that read as the mutant's, from 0."""
    lines = (PACKAGE / mutant.module).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines) if line.strip() == mutant.line]


def source(mutant: Mutant) -> str:
    """The module's text with the fault in it."""
    lines = (PACKAGE / mutant.module).read_text(encoding="utf-8").splitlines(keepends=True)
    number = places(mutant)[mutant.nth or 0]
    lines[number] = lines[number].replace(mutant.line, mutant.becomes)
    return "".join(lines)


def tests(mutant: Mutant) -> list[str]:
    """The node ids of the tests to run."""
    return [str(ROOT / "tests" / "op" / name) for name in mutant.tests.split()]


class Faulty(SourceFileLoader):
    """Loads a module from a text that is not its file's."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text; nothing is read from or kept in a cache."""
        return self.source_to_code(self._text.encode(), self.path)


class Finder:
    """Finds the mutant's module with the fault in it, and nothing else."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = f"tileops._core.{mutant.module.removesuffix('.py').replace('/', '.')}"
        self._text = source(mutant)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the faulty module."""
        spec = PathFinder.find_spec(name, path, target) if name == self._name else None
        if spec is not None and spec.origin is not None:
            spec.loader = Faulty(name, spec.origin, self._text)
        return spec


class Watch:
    """Answers the first test that fails, or the exit code, and ends the process at once.

    A broken collection is no failing test.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def _end(self, code: int, failed: str) -> NoReturn:
        self._answer.send((code, failed))
        os._exit(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Answer a failure in any phase of a test."""
        if report.failed:
            self._end(1, report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Answer an interrupt that a test let out."""
        if excinfo.type is KeyboardInterrupt:
            self._end(2, "an interrupt that no test caught")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Answer that nothing failed."""
        self._end(int(exitstatus), "")


def work(mutant: Mutant | None, names: list[str], answer: Any) -> None:
    """In the child: run the tests; asserts stay as written, so that nothing else loads modules."""
    import pytest

    os.chdir(ROOT)
    if mutant is not None:
        sys.meta_path.insert(0, Finder(mutant))
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
        options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider"]
        pytest.main([*options, *names], [Watch(answer)])


def outcome(mutant: Mutant | None, names: list[str], limit: float = LIMIT) -> tuple[int, str]:
    """The exit code of the tests in a process of their own, and what failed first."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(mutant, names, send))
    child.start()
    send.close()
    try:
        return receive.recv() if receive.poll(limit) else (1, "nothing: it hangs")
    except EOFError:
        return 1, "nothing: the process died"
    finally:
        child.kill()
        child.join()


def judge(mutant: Mutant) -> tuple[Mutant, bool, str]:
    """Whether the mutant is noticed, and the line that reports it."""
    start = time.perf_counter()
    code, failed = outcome(mutant, tests(mutant))
    seconds = time.perf_counter() - start
    verdict = "caught" if failed else f"SURVIVED (exit code {code})"
    fault = f"{mutant.module}: {mutant.line} -> {mutant.becomes}"
    found = f" by {failed.rpartition('::')[2]}" if failed else ""
    return mutant, bool(failed), f"{verdict:9} {seconds:5.1f} s  {fault}{found}"


def main(words: list[str]) -> int:
    """Run all; 1 when a mutant survives or the tests fail without one."""
    chosen = [m for m in MUTANTS if not words or any(w in f"{m.module} {m.line}" for w in words)]
    import hypothesis  # noqa: F401
    import pytest  # noqa: F401
    import torch._dynamo  # noqa: F401  # imported once, for all children

    names = sorted({name for mutant in chosen for name in tests(mutant)})
    code, failed = outcome(None, names, 300)
    if code:
        print(f"without any fault the tests end with {code}: {failed}")
        return 1
    survived = 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        for _, caught, line in pool.map(judge, chosen):
            print(line, flush=True)
            survived += not caught
    print(f"{len(chosen)} mutants, {survived} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
