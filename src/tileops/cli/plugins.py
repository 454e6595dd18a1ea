"""What installed plug-ins did: how loading went, and what is wrong with what they registered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tileops._core.plugins import Loading
from tileops._core.spec import registry as spec_registry
from tileops.cli.output import UsageFault
from tileops.cli.specs import class_of, table_of

SLOW_SECONDS = 1.0
"""A plug-in that takes longer to load is called slow."""


def plugin_rows() -> list[dict[str, Any]]:
    """One row per installed pack and backend: its entry point, seconds, and what became of it."""
    from tileops._core.targets import loading

    groups = (("pack", spec_registry.loadings()), ("backend", loading.loadings()))
    return [_row(kind, each) for kind, loadings in groups for each in loadings]


def _row(kind: str, loading: Loading) -> dict[str, Any]:
    state = "loaded" if loading.seconds < SLOW_SECONDS else "loaded, but slow"
    return {
        "kind": kind,
        "name": loading.name,
        "value": loading.value,
        "seconds": round(loading.seconds, 3),
        "state": "failed" if loading.failure else state,
        "failure": loading.failure,
    }


def registration_faults(devices: Iterable[str]) -> list[str]:
    """What keeps ops from being constructed or targets from being selected.

    Args:
        devices: the devices of this process, which detectors are asked about.
    """
    return [*_kernel_type_faults(), *_detector_faults(devices)]


def _kernel_type_faults() -> Iterator[str]:
    from tileops._core.targets import registry

    for name in sorted({op for op, _ in registry.current.kernel_types}):
        spec = spec_registry.lookup(name)
        if spec is not None and spec.status == "implemented":
            try:
                table_of(class_of(spec))
            except UsageFault as fault:
                yield str(fault)


def _detector_faults(devices: Iterable[str]) -> Iterator[str]:
    import torch

    from tileops._core.targets.selection import detected
    from tileops.errors import BackendError

    for device in devices:
        try:
            detected(torch.device(device))
        except BackendError as fault:
            yield str(fault)


def strangers() -> list[str]:
    """Ops that backends registered something for and that nothing here defines."""
    from tileops._core.targets import registry

    named = {op for op, _ in (*registry.current.builders, *registry.current.kernel_types)}
    return sorted(named - set(spec_registry.specs()))
