"""Walks over an op and what it holds, down to the leaves.

Composites may share an op, so that there can be many more ways down than ops: each op is met once,
on the first way that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Below = Callable[[Any], Iterable[Any]]
"""The ops right below one, in order."""


def held(op: Any) -> Iterable[Any]:
    """The ops that an op holds, in stage order."""
    return (sub_op for _, _, sub_op in op._held())


def paths_down(top: Any, below: Below = held) -> Iterator[tuple[Any, ...]]:
    """A path from `top` to each op that is reached, itself included, in depth-first order.

    What is below an op is asked after its path was taken.
    """
    seen: set[int] = set()
    pending: list[tuple[Any, ...]] = [(top,)]
    while pending:
        path = pending.pop()
        op = path[-1]
        if id(op) not in seen:
            seen.add(id(op))
            yield path
            pending += [(*path, other) for other in reversed([*below(op)])]


def each_once(top: Any, below: Below = held) -> Iterator[Any]:
    """Each op that is reached from `top`, itself included, in depth-first order."""
    return (path[-1] for path in paths_down(top, below))
