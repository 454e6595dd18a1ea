"""Whose doing it is: the plug-in that code which runs now belongs to.

Whoever loads plug-ins says which there are, which one a thread is loading, and which failed. What
is registered carries its origin, from which the plug-in follows, also one that is known only later:
that of the module whose body runs, else the one that the thread is loading, else that of the code
on the thread's stack or of what is registered. A failure withdraws all that the plug-in did, and
what it does from then on is refused. A process forks while no other thread loads a plug-in: in the
child nobody would go on, and whoever imports what is half imported there waits for ever.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from types import FrameType
from typing import NamedTuple

from tileops._core.plugins import is_imported, is_importing, labelled, names_module

_SHARED = frozenset({"__main__", "tileops", *sys.stdlib_module_names})
"""Packages whose code everybody runs: it is no plug-in's, whatever an entry point names."""

PATIENCE = 300.0
"""Seconds after which nobody waits any longer for a thread that loads one plug-in."""

_points: dict[str, tuple[EntryPoint, ...]] = {}
_failures: dict[EntryPoint, str] = {}
_under_way: dict[int, tuple[EntryPoint, ...]] = {}
_changing = threading.Condition()
"""Held while a thread begins or ends to load a plug-in, and while the process forks."""
_lost: set[EntryPoint] = set()
"""What threads were loading that a fork has left behind."""
_withdrawals: list[Callable[[EntryPoint], None]] = []


class Origin(NamedTuple):
    """Where a registration comes from.

    Attributes:
        group: entry-point group whose plug-ins are meant first, where a module is several.
        bodies: modules whose bodies run on the thread's stack, innermost first.
        loading: the plug-in that the thread is loading.
        code: modules of the code on the stack, innermost first, then that of what is registered.
        settled: the plug-in that it belongs to, if plug-ins were known by then.
    """

    group: str
    bodies: tuple[str, ...]
    loading: EntryPoint | None
    code: tuple[str, ...]
    settled: EntryPoint | None = None

    def is_of(self, point: EntryPoint) -> bool:
        """Whether it belongs to a plug-in."""
        owner = self.owner
        return owner is not None and owner == point

    @property
    def owner(self) -> EntryPoint | None:
        """The plug-in that it belongs to; None where it is the process's own."""
        return self.settled or self._first(self.bodies) or self.loading or self._first(self.code)

    def importing(self) -> EntryPoint | None:
        """The plug-in that the thread imports, for whatever reason, or loads."""
        return self.loading or self._first(self.bodies)

    def _first(self, modules: Iterable[str]) -> EntryPoint | None:
        """The plug-in of the first module that belongs to any.

        Of several, the one that is being loaded, in this thread or another, or has not failed.
        """
        for module in modules:
            found = _home(self.group, module)
            if found:
                begun = _all_under_way()
                return min(found, key=lambda each: (each not in begun, each in _failures))
        return None


def origin(group: str, value: object = None) -> Origin:
    """The origin of what this thread does now, with `value`, in the matter of a group."""
    code, bodies = [], []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if isinstance(name, str):
            code.append(name)
            if frame.f_code.co_name == "<module>":
                bodies.append(name)
        frame = frame.f_back
    modules = (*dict.fromkeys(code), module_of(value))
    found = Origin(group, tuple(bodies), loading(), modules)
    return found._replace(settled=found.owner)


def of(point: EntryPoint) -> Origin:
    """The origin of what loading a plug-in gives."""
    return Origin(point.group, (), point, (), point)


def module_of(value: object) -> str:
    """Name of the module that defines an object, or its class; empty where it says none."""
    while isinstance(value, functools.partial):
        value = value.func
    try:
        name = getattr(value, "__module__", None) or type(value).__module__
    except Exception:
        return ""
    return name if isinstance(name, str) else ""


def announce(group: str, points: Iterable[EntryPoint]) -> None:
    """Say which plug-ins a group has; those whose value names no module own nothing."""
    _points[group] = tuple(filter(names_module, points))


def on_withdrawal(withdraw: Callable[[EntryPoint], None]) -> None:
    """Have `withdraw` undo what a plug-in registered."""
    _withdrawals.append(withdraw)


@contextmanager
def under_way(point: EntryPoint) -> Iterator[None]:
    """This thread loads a plug-in; what an import that failed earlier left is withdrawn first.

    Raises:
        ImportError: a thread of the process from which this one was forked was loading it.
    """
    if point in _lost:
        raise ImportError("the process was forked while another thread was importing it")
    if not is_imported(point) and not is_importing(point):
        withdraw(point)
    thread = threading.get_ident()
    around = _under_way.get(thread, ())
    try:
        with _changing:
            _under_way[thread] = (*around, point)
        yield
    finally:
        with _changing:
            _under_way[thread] = around
            if not around:
                del _under_way[thread]
            _changing.notify_all()


def _await_others() -> None:
    """Wait, for a fork, until no other thread loads a plug-in, and let none begin.

    A thread that takes part in an import does not wait for its end.
    """
    _changing.acquire()
    if not (importing("") or helping("", called=True)):
        _changing.wait_for(lambda: not _others(), PATIENCE)


def _leave_others_behind() -> None:
    """Give up, in a forked child, what other threads were loading."""
    for thread in _others():
        _lost.update(_under_way.pop(thread))
    _changing.release()


def _others() -> set[int]:
    """The other threads that load plug-ins."""
    return _under_way.keys() - {threading.get_ident()}


os.register_at_fork(
    before=_await_others, after_in_parent=_changing.release, after_in_child=_leave_others_behind
)


def withdraw(point: EntryPoint) -> None:
    """Undo everything that a plug-in registered."""
    for undo in _withdrawals:
        undo(point)


def has_failed(point: EntryPoint, failure: str) -> None:
    """Withdraw what a plug-in did, and refuse what it does from now on."""
    _failures[point] = failure
    withdraw(point)


def objection(origin: Origin) -> str | None:
    """Why what comes from there is refused, or None."""
    owner = origin.owner
    if owner is None or owner not in _failures:
        return None
    return (
        f"{labelled(owner)} failed to load ({_failures[owner]}), so that what it registers is "
        "refused until the process ends"
    )


def importing(group: str) -> EntryPoint | None:
    """The plug-in that this thread imports, for whatever reason, or loads."""
    return origin(group).importing()


def helping(group: str, *, called: bool = False) -> EntryPoint | None:
    """The half imported plug-in whose code this thread runs, while another thread imports it.

    That import perhaps waits for this thread, which therefore must not wait for its end.

    Args:
        group: entry-point group whose plug-ins are meant first.
        called: whether loading goes on after the import, with a call.
    """
    here = origin(group)
    if here.importing():
        return None
    begun = _all_under_way() if called else ()
    candidates = (point for module in here.code for point in _home(group, module))
    return next((each for each in candidates if is_importing(each) or each in begun), None)


def loading() -> EntryPoint | None:
    """The plug-in that this thread is loading, the innermost."""
    mine = _under_way.get(threading.get_ident(), ())
    return mine[-1] if mine else None


def is_loading(group: str) -> bool:
    """Whether this thread is loading a plug-in of a group."""
    mine = _under_way.get(threading.get_ident(), ())
    return any(point in _points.get(group, ()) for point in mine)


def depth(point: EntryPoint) -> int:
    """How many times over this thread is loading a plug-in."""
    return _under_way.get(threading.get_ident(), ()).count(point)


def _all_under_way() -> tuple[EntryPoint, ...]:
    """The plug-ins that any thread is loading."""
    return tuple(each for points in tuple(_under_way.values()) for each in points)


def _home(group: str, module: str) -> list[EntryPoint]:
    """The plug-ins that a module belongs to: of the group if possible, by module, by package."""
    if module.partition(".")[0] in _SHARED:
        return []
    others = [point for name, points in _points.items() if name != group for point in points]
    for points in (_points.get(group, ()), others):
        around = [point for point in points if f"{module}.".startswith(f"{point.module}.")]
        if around:
            longest = max(len(point.module) for point in around)
            return [point for point in around if len(point.module) == longest]
        beside = [p for p in points if f"{module}.".startswith(f"{_package(p.module)}.")]
        if beside:
            return beside
    return []


def _package(dotted: str) -> str:
    """The outermost package of a module, but for those that several distributions share."""
    parts = dotted.split(".")
    for end in range(1, len(parts)):
        package = ".".join(parts[:end])
        module = sys.modules.get(package)
        if module is None or getattr(module, "__file__", None) is not None:
            return package
    return dotted
