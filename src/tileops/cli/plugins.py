"""What became of installed plug-ins, a row for each."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint
from typing import Any

from tileops._core.plugins import Loading
from tileops._core.spec import registry as spec_registry
from tileops.cli.plugin_faults import Fault

SLOW_SECONDS = 1.0
"""A plug-in that takes longer to load is called slow."""


def plugin_rows(faults: Collection[Fault]) -> list[dict[str, Any]]:
    """One row per installed pack and backend: its entry point, seconds, and what became of it.

    Args:
        faults: what is wrong with what they registered.
    """
    from tileops._core.targets import loading

    groups = (("pack", spec_registry.loadings()), ("backend", loading.loadings()))
    at_fault = [each.owner for each in faults if each.owner is not None]
    return [_row(kind, each, at_fault) for kind, loadings in groups for each in loadings]


def _row(kind: str, loading: Loading, at_fault: Collection[EntryPoint]) -> dict[str, Any]:
    state = "loaded" if loading.seconds < SLOW_SECONDS else "loaded, but slow"
    if any(map(loading.is_of, at_fault)):
        state = "loaded, at fault"
    return {
        "kind": kind,
        "name": loading.name,
        "value": loading.value,
        "seconds": round(loading.seconds, 3),
        "state": "failed" if loading.failure else state,
        "failure": loading.failure,
    }
