"""How far a long command is, where a person watches; nothing elsewhere.

Steps that print lines have a bar below them, if `rich` is there. One long step has its name on
standard error until it ends, so that the answer may go anywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Told:
    """A command that prints line by line.

    Args:
        step: moves a bar on by one, where there is one.
        silent: whether the lines are left out.
    """

    def __init__(self, step: Callable[[], None] | None = None, *, silent: bool = False) -> None:
        self._step, self._silent = step, silent

    def advance(self, text: str) -> None:
        """Print what one more step found."""
        if not self._silent:
            print(text, flush=True)
        if self._step is not None:
            self._step()


@contextmanager
def progress(total: int, *, silent: bool = False) -> Iterator[Told]:
    """A command's steps.

    Args:
        total: how many there are at most.
        silent: whether the lines are left out, since the answer is data; a bar then goes to
            standard error.
    """
    stream = sys.stderr if silent else sys.stdout
    if not stream.isatty():
        yield Told(silent=silent)
        return
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ModuleNotFoundError:
        yield Told(silent=silent)
        return
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=silent)
    with Progress(*columns, console=console, redirect_stdout=not silent, transient=True) as bar:
        task = bar.add_task("rows", total=total)
        yield Told(lambda: bar.advance(task), silent=silent)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """One long step.

    Args:
        what: what is done.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    print(f"{what} …", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
