"""Plug-ins: entry points of other packages, in one order, and how loading each of them went.

What loading means, and what a failure undoes, is the business of whoever loads them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import NamedTuple


class Loading(NamedTuple):
    """How loading one plug-in went; `failure` is None when it succeeded."""

    name: str
    value: str
    seconds: float
    failure: str | None

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.failure or 'loaded'}"


def in_order(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Entry points by name, then value: the same order on every machine."""
    return sorted(points, key=lambda point: (point.name, point.value))


def is_importing(point: EntryPoint) -> bool:
    """Whether the module of an entry point, or a package around it, is half imported."""
    parts = point.value.partition(":")[0].strip().split(".")
    modules = (sys.modules.get(".".join(parts[:end])) for end in range(1, len(parts) + 1))
    specs = (getattr(module, "__spec__", None) for module in modules)
    return any(getattr(spec, "_initializing", False) for spec in specs)
