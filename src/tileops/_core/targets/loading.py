"""Loading backend packages: entry points of group `tileops.backends`, each as a transaction.

They are imported once per process, in order of name and value, when the registry is first asked;
packs are imported before, since their import may construct ops. A package that raises anything
leaves nothing behind but a line in the list of failures, and loading goes on. Warnings come only
after all packages were tried, so that a warning turned into an error neither cuts loading short nor
repeats it. A package whose import is interrupted leaves nothing behind either, and is tried again
at the next question. While one thread loads, others wait, except those that take part in the
import, for which it may be waiting itself: these see what is there so far.
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.metadata import EntryPoint

from tileops._core import owners
from tileops._core.locks import make_lock
from tileops._core.plugins import (
    Loading,
    entry_points,
    failed_import,
    in_order,
    is_importing,
    labelled,
    levels_to_the_user,
    loaded,
)
from tileops._core.spec.registry import manifest
from tileops._core.targets.registry import GROUP
from tileops.errors import BackendError

_lock = make_lock()
_loadings: dict[EntryPoint, Loading] = {}
"""How loading went, of each package that was tried."""
_loaded = False
_current: EntryPoint | None = None


def ensure_loaded() -> None:
    """Import every backend package that was not tried yet.

    Raises:
        BackendError: another thread has been importing one package for too long.
    """
    if _loaded:
        return
    manifest()
    if not _take_turn():
        return
    try:
        complete = _load_all()
    finally:
        _lock.release()
    if complete:
        _warn_of_failures()


def ensure_complete(op: str) -> None:
    """Import every backend package before an op is constructed.

    Raises:
        BackendError: a package constructs the op while it is imported, when not all is known.
    """
    ensure_loaded()
    while not _loaded:
        plugin = owners.importing(GROUP) or owners.helping(GROUP)
        if plugin is not None:
            raise BackendError(
                f"{op} cannot be constructed while {labelled(plugin)} is imported, which "
                "registers and does nothing more: not all implementations are known yet"
            )
        ensure_loaded()


def _take_turn() -> bool:
    """Take the lock of loading; False for a thread that may not wait for it."""
    waited_for = _current
    while not _lock.acquire(blocking=False):
        if owners.importing(GROUP) or owners.helping(GROUP):
            return False
        if _lock.acquire(timeout=owners.PATIENCE):
            break
        if waited_for is not None and waited_for is _current:
            raise BackendError(
                f"another thread has been importing {labelled(waited_for)} for more than "
                f"{owners.PATIENCE:.0f} seconds; a backend package registers at import and waits "
                "for no other thread"
            )
        waited_for = _current
    return True


def _load_all() -> bool:
    """Load what is left to load; whether this call completed the registry.

    A package that this thread itself is importing is left for the next time.
    """
    global _loaded, _current
    if _loaded or owners.is_loading(GROUP):
        return False
    points = in_order(entry_points(GROUP))
    owners.announce(GROUP, points)
    left = False
    try:
        for point in points:
            if point in _loadings:
                continue
            _current = point
            if is_importing(point) and owners.importing(GROUP):
                left = True
            else:
                _load(point)
    finally:
        _current = None
    _loaded = not left
    return _loaded


def _warn_of_failures() -> None:
    for failure in failures():
        warnings.warn(
            f"a backend package could not be loaded: {failure}; "
            "tileops.backend.load_failures() lists them all",
            RuntimeWarning,
            stacklevel=levels_to_the_user(),
        )


def failures() -> tuple[str, ...]:
    """A line per package that could not be loaded: name, value, exception, place."""
    return tuple(str(each) for each in tuple(_loadings.values()) if each.failure)


def loadings() -> tuple[Loading, ...]:
    """How loading each backend package went."""
    ensure_loaded()
    return tuple(_loadings.values())


def hint() -> str:
    """What target-related errors add when some package could not be loaded."""
    return "; see tileops.backend.load_failures()" if failures() else ""


def _load(point: EntryPoint) -> None:
    modules = set(sys.modules)
    started = time.perf_counter()
    failure = None
    try:
        with owners.under_way(point):
            loaded(point)
    except KeyboardInterrupt:
        owners.withdraw(point)
        _forget(point, modules)
        raise
    except BaseException as error:  # Only an interrupt comes from outside.
        failure = failed_import(point, error)
        owners.has_failed(point, failure)
    _loadings[point] = Loading.of(point, time.perf_counter() - started, failure)


def _forget(point: EntryPoint, before: set[str]) -> None:
    """Drop the package's modules imported since, so that the next attempt runs them again."""
    package = point.module.partition(".")[0]
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == package:
            del sys.modules[name]
