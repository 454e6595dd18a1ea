"""Locks that a forked child finds free: the threads that held them are not there to let go.

The thread that forks is there, and keeps what it holds. What another held a lock for may be half
done in the child: a lock that is free promises no more than that nobody waits for ever.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> threading.RLock:
    """A reentrant lock: finalisers may run, and take it, wherever a thread holds it."""
    lock = threading.RLock()
    _made.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_made):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_all)
