"""Plug-ins: entry points of other packages, in one order, and how loading each of them went.

What loading means, and what a failure undoes, is the business of whoever loads them.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import reduce
from importlib import import_module, metadata
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tileops._core.lang.values import printable

FAILURES = (Exception, SystemExit)
"""What counts as a failure of a plug-in's code that a call runs. It may not end the process either;
what else is no `Exception` goes through. An import that fails may raise anything."""

_LONGEST = 500
"""How many characters of a failure are worth a line."""


class Loading(NamedTuple):
    """How loading one plug-in went; `failure` is None when it succeeded.

    Name and value are those of the entry point, in printable form.
    """

    name: str
    value: str
    seconds: float
    failure: str | None

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.failure or 'loaded'}"

    @classmethod
    def of(cls, point: EntryPoint, seconds: float, failure: str | None) -> Loading:
        """How loading an entry point went."""
        return cls(_line(point.name), _line(point.value), seconds, failure)

    def is_of(self, point: EntryPoint) -> bool:
        """Whether it is an entry point's."""
        return (self.name, self.value) == (_line(point.name), _line(point.value))


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group; a distribution whose own cannot be read gives none."""
    try:
        return list(metadata.entry_points(group=group))
    except Exception:
        found = (points for _, points, _ in _distributions())
        return [point for points in found for point in points if point.group == group]


def unreadable() -> list[str]:
    """A line per installed distribution whose entry points cannot be read."""
    return [
        f"the entry points of {_line(name)} cannot be read: {fault}"
        for name, _, fault in _distributions()
        if fault
    ]


def strays(groups: Collection[str]) -> list[str]:
    """A line per entry point of a group that sounds like one of ours, and which nothing reads.

    Args:
        groups: the groups that are read.
    """
    return [
        f"the entry point {point.name} = {point.value} of {_line(name)} is of the group "
        f"{point.group}, which nothing reads; groups are {', '.join(groups)}"
        for name, points, _ in _distributions()
        for point in points
        if point.group.partition(".")[0] == "tileops" and point.group not in groups
    ]


def _distributions() -> Iterator[tuple[str, Iterable[EntryPoint], str | None]]:
    """Name and entry points of each distribution, or what fails; the first of those of one name."""
    seen = set()
    for each in metadata.distributions():
        name = _name(each)
        if name in seen:
            continue
        seen.add(name)
        try:
            yield name, each.entry_points, None
        except Exception as error:
            yield name, (), described(error)


def _name(distribution: Distribution) -> str:
    """The name of a distribution, or where it lies when it tells none."""
    try:
        return str(distribution.metadata["Name"] or distribution.locate_file(""))
    except Exception:
        return str(distribution.locate_file(""))


def in_order(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Entry points by name, then value, each once: the same order on every machine."""
    return sorted(dict.fromkeys(points), key=lambda point: (point.name, point.value))


def names_module(point: EntryPoint) -> bool:
    """Whether the value of an entry point has the form of one."""
    return EntryPoint.pattern.match(point.value) is not None


def loaded(point: EntryPoint, *, half: bool = False) -> Any:
    """What an entry point names, imported.

    Args:
        point: the entry point.
        half: whether to take the module as it is, for a thread that must not wait for another
            which imports it.

    Raises:
        ValueError: its value is no path of a module.
    """
    if not names_module(point):
        raise ValueError("the value of an entry point is MODULE or MODULE:NAME")
    if half:
        attributes = filter(None, (point.attr or "").split("."))
        return reduce(getattr, attributes, sys.modules[point.module])
    return point.load()


def module(name: str) -> ModuleType:
    """A module of a plug-in, imported.

    Raises:
        ImportError: its import exits, which is as good as failing.
    """
    try:
        return import_module(name)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ImportError(f"the import of {name} exits: {described(error)}", name=name) from error


def is_missing(name: str, error: ModuleNotFoundError) -> bool:
    """Whether an import failed for want of the module itself, not of one that it imports."""
    return error.name is not None and f"{name}.".startswith(f"{error.name}.")


def levels_to_the_user() -> int:
    """The stack level, seen from the caller, of the first code that is not this package's."""
    package, level = __name__.partition(".")[0], 1
    frame = sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


def failure_of(ask: Callable[[], object]) -> BaseException | None:
    """What a plug-in's code raises where it is asked for the sake of asking, but for interrupts."""
    try:
        ask()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


def described(error: BaseException) -> str:
    """An exception in one printable line of bounded length, whatever its text does."""
    try:
        text = str(error)
    except FAILURES:
        text = "(its text cannot be made)"
    shown = _line(text)
    cut = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
    return f"{type(error).__name__}: {cut}"


def failed_import(point: EntryPoint, error: BaseException) -> str:
    """Why a plug-in's import failed: the exception, its place in the plug-in, where to see more."""
    place = _place(point, error)
    if place is None:
        return described(error)
    by_hand = f"python -c 'import {point.module}'"
    return f"{described(error)} (at {_line(place)}; to see the traceback: {by_hand})"


def _place(point: EntryPoint, error: BaseException) -> str | None:
    """The file and line of the plug-in's innermost frame, or of what cannot be parsed."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return f"{error.filename}:{error.lineno}"
    package = point.value.partition(":")[0].partition(".")[0]
    places = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    return places[-1] if places else None


def _line(text: str) -> str:
    """A text in one printable line."""
    return printable(" ".join(text.split()))


def labelled(point: EntryPoint) -> str:
    """A plug-in in a message."""
    return f"entry point {_line(point.name)} ({_line(point.value)})"


def is_imported(point: EntryPoint) -> bool:
    """Whether the module of an entry point and the packages around it are there, at least half."""
    return names_module(point) and None not in _modules(point)


def is_importing(point: EntryPoint) -> bool:
    """Whether the module of an entry point, or a package around it, is half imported."""
    specs = (getattr(module, "__spec__", None) for module in _modules(point))
    return any(getattr(spec, "_initializing", False) for spec in specs)


def _modules(point: EntryPoint) -> list[ModuleType | None]:
    """The module of an entry point after the packages around it, None for one not imported."""
    parts = point.value.partition(":")[0].strip().split(".")
    return [sys.modules.get(".".join(parts[:end])) for end in range(1, len(parts) + 1)]
