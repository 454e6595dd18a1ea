"""Instances by key: how an operator of a compiled graph finds the op or the kernel that it runs.

A key is a string, since strings are constants of a trace. It is never used again, in this process
or another, because a compiler bakes shapes under it into artefacts that outlive the process. The
table holds instances weakly.
"""

from __future__ import annotations

import itertools
import os
import secrets
import weakref
from typing import Any

from tileops.errors import TileOpsError

table: dict[str, weakref.ref[Any]] = {}
"""What `find` looks up; a generated operator does so itself."""
_run = secrets.token_hex(4)
_runs = {_run}
"""Those of this process, and of the processes that it was forked from."""
_numbers = itertools.count()


def register(instance: object) -> str:
    """Enter an instance under a new key and return the key."""
    key = f"{type(instance).__name__}#{_run}-{next(_numbers)}"
    forget = table.pop  # The name of the table is gone when the interpreter ends.
    table[key] = weakref.ref(instance, lambda _: forget(key, None))
    return key


def gone() -> None:
    """Stands for the reference of a key that was never given."""


def find(key: str) -> Any:
    """The live instance of this key.

    Raises:
        TileOpsError: the instance is gone.
    """
    instance = table.get(key, gone)()
    if instance is None:
        advice = (
            "keep the op alive as long as the function that was compiled with it"
            if key.rpartition("#")[2].partition("-")[0] in _runs
            else "it was given in another process; export or package the program where it runs"
        )
        raise TileOpsError(f"no live instance has the key {key!r}: {advice}")
    return instance


def _renew_run() -> None:
    """Give a forked child keys that its parent never makes."""
    global _run
    _run = secrets.token_hex(4)
    _runs.add(_run)


os.register_at_fork(after_in_child=_renew_run)
