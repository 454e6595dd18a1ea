"""No lock is left to a forked child whose holder stayed behind."""

from __future__ import annotations

import re
from pathlib import Path

LOCKING = re.compile(r"\b(threading\.(R?Lock|Semaphore|BoundedSemaphore)\(|import cached_prop)")
"""What makes a lock that nobody frees after a fork; up to Python 3.11 a cached property of the
standard library does, unseen."""


def test_locks_are_made_where_a_fork_frees_them(package: Path) -> None:
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if LOCKING.search(line) and "tileops._core.lang.cached" not in line
    ]
    assert found == ["_core/locks.py: lock = threading.RLock()"]
