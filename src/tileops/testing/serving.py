"""Who served the calls of generated tests: the ops that tests construct, and a line for each.

A green test says little of an added kernel that no small call chose, or of a target whose switch
was off, so a run tells. Ops constructed by hand, or in other processes, are not seen.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tileops import Op, backend
from tileops._core.targets import registry

_watching: list[list[Op]] = []
"""A list for each watch that is under way."""


@contextmanager
def constructed_ops() -> Iterator[list[Op]]:
    """A list that gets the ops which are constructed meanwhile."""
    ops: list[Op] = []
    _watching.append(ops)
    try:
        yield ops
    finally:
        _watching.pop()


def note(op: Op) -> None:
    """Tell of an op that was constructed."""
    for ops in _watching:
        ops.append(op)


def servers_of(ops: Iterable[Op]) -> list[tuple[str, str]]:
    """For each op that was served, its name and what served it, each once for an instance."""
    return [(type(op).__name__, server) for op in ops for server in _servers(op)]


def _servers(op: Op) -> set[str]:
    """The target of an instance, or its kernels; nothing where no call came as far."""
    if op.serving_target in {None, backend.BUILTIN}:
        return {type(kernel).__name__ for kernel in op.iter_kernels()}
    return {_target(op.serving_target)}


def _target(name: str | None) -> str:
    return f"target {name!r}"


def summary(ops: Iterable[str], servers: Counter[tuple[str, str]]) -> list[str]:
    """A line for each op, then one for each backend package that could not be loaded.

    Args:
        ops: names of the ops that were tested.
        servers: how many instances of an op were served by what.
    """
    with warnings.catch_warnings():  # Failures are told below.
        warnings.simplefilter("ignore")
        failures = backend.load_failures()
    lines = [f"{op}: {_served(op, servers)}" for op in ops]
    return lines + [f"a backend package could not be loaded: {failure}" for failure in failures]


def _served(op: str, servers: Counter[tuple[str, str]]) -> str:
    """By what an op was served, and what is registered for it and never was."""
    mine = {server: count for (name, server), count in sorted(servers.items()) if name == op}
    served = ", ".join(f"{server} ({_instances(count)})" for server, count in mine.items())
    kernels = registry.added_kernel_types(op).items()
    idle = [f"{key} ({cls.__name__})" for key, cls in kernels if cls.__name__ not in mine]
    idle += [name for name in map(_target, registry.current.targets(op)) if name not in mine]
    never = f"; never chosen: {', '.join(idle)}" if idle else ""
    return f"served by {served or 'no kernel'}{never}"


def _instances(count: int) -> str:
    return f"{count} instance{'s' * (count > 1)}"
