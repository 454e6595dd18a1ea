"""What backend packages register, and what they can ask.

A package is found by the entry-point group `tileops.backends`. Its import registers and nothing
more. Importing this module loads no package; the registry loads them when it is first asked.
"""

from __future__ import annotations

from tileops._core.targets import loading, registry
from tileops._core.targets.registry import (
    BUILTIN,
    TensorSpec,
    register_detector,
    register_kernel_builder,
    register_kernel_type,
)

__all__ = [
    "BUILTIN",
    "TensorSpec",
    "default_target",
    "load_failures",
    "register_detector",
    "register_kernel_builder",
    "register_kernel_type",
    "registered_targets",
    "set_default_target",
]


def set_default_target(target: str | None) -> None:
    """Set the target of instances that name none, from their next selection on.

    Args:
        target: a registered target, `BUILTIN` for the ops' own bodies, None for detection.

    Raises:
        UnknownTargetError: nothing registered the target.
        BackendError: a plug-in sets it while it is imported; the choice is the user's.
    """
    loading.ensure_loaded()
    registry.set_default(target)


def default_target() -> str | None:
    """The process default; None means detection. Loads no backend package."""
    return registry.current.default


def registered_targets(op: str | None = None) -> tuple[str, ...]:
    """Sorted names of all targets, or of those with a builder for the op class `op`."""
    loading.ensure_loaded()
    return registry.current.targets(op)


def load_failures() -> tuple[str, ...]:
    """A line per backend package that could not be loaded: name, value, exception, place."""
    loading.ensure_loaded()
    return loading.failures()
