"""How far a long command is, where a person watches; nothing elsewhere, nor beside data.

Steps that print lines have a bar below them. What is waited for has its name on standard error
until it ends, so that the answer may go anywhere, and a bar in its place once it tells how much is
done. Bars need `rich`; without it there are lines, names and how many are done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
Tell = Callable[[float, float], None]
"""Says how much is done, and of how much."""

_CLEARED = "\r\x1b[K"


class Told:
    """A command that prints line by line.

    Args:
        step: moves a bar on by one, where there is one.
        before: makes room for a line, where there is something in its place.
        silent: whether the lines are left out.
    """

    def __init__(
        self,
        step: Callable[[], None] | None = None,
        before: Callable[[], None] | None = None,
        *,
        silent: bool = False,
    ) -> None:
        self._step, self._before, self._silent = step, before, silent

    def advance(self, text: str) -> None:
        """Print what one more step found."""
        if self._before is not None:
            self._before()
        if not self._silent:
            print(text, flush=True)
        if self._step is not None:
            self._step()


@contextmanager
def progress(total: int, *, silent: bool = False) -> Iterator[Told]:
    """A command's steps.

    Args:
        total: how many there are at most.
        silent: whether lines and bar are left out, since the answer is data.
    """
    bar = None if silent or not _is_watched(sys.stdout) else _bar(sys.stdout)
    if bar is None:
        with _counting(total, silent=silent) as told:
            yield told
        return
    with bar:
        task = bar.add_task("rows", total=total)
        yield Told(lambda: bar.advance(task))


@contextmanager
def _counting(total: int, *, silent: bool) -> Iterator[Told]:
    """Steps without a bar; who watches has the number of the one that runs below the lines."""
    if silent or not (_is_watched(sys.stdout) and _is_watched(sys.stderr)):
        yield Told(silent=silent)
        return
    numbers = iter(range(1, total + 1))

    def step() -> None:
        for number in islice(numbers, 1):
            _show(f"row {number} of at most {total} …")

    step()
    try:
        yield Told(step, before=lambda: _show(""))
    finally:
        _show("")


@contextmanager
def waiting(what: str, *, silent: bool = False) -> Iterator[Tell]:
    """One long step, which may tell how far it is.

    Args:
        what: what is done.
        silent: whether nothing is shown, since the answer is data.
    """
    if silent or not _is_watched(sys.stderr):
        yield lambda _done, _total: None
        return
    print(f"{what} …", end="", file=sys.stderr, flush=True)
    with ExitStack() as shown:
        shown.callback(print, _CLEARED, end="", file=sys.stderr, flush=True)
        yield _Waiting(what, shown)


class _Waiting:
    """The name of a step, and from the first that is told of it on its bar."""

    def __init__(self, what: str, shown: ExitStack) -> None:
        self._what, self._shown = what, shown
        self._bar: Progress | None = None
        self._is_told = False

    def __call__(self, done: float, total: float) -> None:
        if not self._is_told:
            self._is_told = True
            self._bar = _bar(sys.stderr)
            if self._bar is not None:
                print(_CLEARED, end="", file=sys.stderr, flush=True)
                self._shown.enter_context(self._bar)
                self._bar.add_task(self._what)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        else:
            _show(f"{self._what} … {done:g} of {total:g}")


def counted(items: Sequence[Item], tell: Tell) -> Iterator[Item]:
    """Items one by one, telling how many are done."""
    for number, item in enumerate(items):
        tell(number, len(items))
        yield item
    tell(len(items), len(items))


def _show(text: str) -> None:
    """Put a text where the last one was, on standard error."""
    print(f"{_CLEARED}{text}", end="", file=sys.stderr, flush=True)


def _is_watched(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _bar(stream: TextIO) -> Progress | None:
    """A bar, below what is printed to terminals meanwhile; None without `rich`."""
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(
        *columns,
        console=Console(file=stream),
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=sys.stderr.isatty(),
        transient=True,
    )
