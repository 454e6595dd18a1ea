"""How far a long command is: a bar below its lines, where a person watches and `rich` is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Told:
    """A command that prints line by line.

    Args:
        step: moves a bar on by one, where there is one.
    """

    def __init__(self, step: Callable[[], None] | None = None) -> None:
        self._step = step

    def advance(self, text: str) -> None:
        """Print what one more step found."""
        print(text, flush=True)
        if self._step is not None:
            self._step()


@contextmanager
def progress(total: int) -> Iterator[Told]:
    """A command's steps.

    Args:
        total: how many there are at most.
    """
    if not sys.stdout.isatty():
        yield Told()
        return
    try:
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ModuleNotFoundError:
        yield Told()
        return
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("rows", total=total)
        yield Told(lambda: bar.advance(task))
