"""Loading backend packages: entry points of group `tileops.backends`, each as a transaction.

They are imported once per process, in order of name and value, when the registry is first asked.
One that raises or exits leaves nothing behind and a line in the list of failures; loading goes on,
and the warnings come only after all were tried, so that they neither cut it short nor repeat it.
One that is interrupted leaves nothing behind either, and the next question tries it again.
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.metadata import EntryPoint, entry_points

from tileops._core.plugins import FAILURES, Loading, described, in_order, loaded
from tileops._core.targets import registry

GROUP = "tileops.backends"

_tried: set[tuple[str, str]] = set()
_loadings: list[Loading] = []
_loaded = False
_loading = False


def ensure_loaded() -> None:
    """Import every backend package that was not tried yet.

    Other threads wait for the complete registry; the loading thread itself may read what is
    there so far.
    """
    if _loaded or not _load_all():
        return
    for failure in failures():
        warnings.warn(
            f"a backend package could not be loaded: {failure}; "
            "tileops.backend.load_failures() lists them all",
            RuntimeWarning,
            stacklevel=2,
        )


def _load_all() -> bool:
    """Load what is left to load; whether this call completed the registry."""
    global _loaded, _loading
    with registry.lock:
        if _loaded or _loading:
            return False
        _loading = True
        try:
            for entry in in_order(entry_points(group=GROUP)):
                if (entry.name, entry.value) not in _tried:
                    _load(entry)
        finally:
            _loading = False
        _loaded = True
        return True


def failures() -> tuple[str, ...]:
    """A line per package that could not be loaded: name, value, exception."""
    return tuple(
        f"{each.name} = {each.value}: {each.failure}" for each in _loadings if each.failure
    )


def loadings() -> tuple[Loading, ...]:
    """How loading each backend package went."""
    ensure_loaded()
    return tuple(_loadings)


def hint() -> str:
    """What target-related errors add when some package could not be loaded."""
    return "; see tileops.backend.load_failures()" if failures() else ""


def _load(entry: EntryPoint) -> None:
    saved = registry.current.copy()
    modules = set(sys.modules)
    started = time.perf_counter()
    failure = None
    try:
        loaded(entry)
    except FAILURES as error:
        registry.restore(saved)
        failure = described(error)
    except BaseException:
        registry.restore(saved)
        _forget(entry, modules)
        raise
    _tried.add((entry.name, entry.value))
    seconds = time.perf_counter() - started
    _loadings.append(Loading(entry.name, entry.value, seconds, failure))


def _forget(entry: EntryPoint, before: set[str]) -> None:
    """Drop the package's modules imported since, so that the next attempt runs them again."""
    package = entry.module.partition(".")[0]
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == package:
            del sys.modules[name]
