"""What backends registered: detectors, builders, added kernel types, the process default.

The registry is process-wide and guarded by one re-entrant lock. It imports nothing: `loading`
fills it from entry points before it is first asked. Names are checked here, contracts of kernel
types when an op is constructed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from tileops.errors import BackendError, UnknownTargetError

BUILTIN = "builtin"
"""The in-tree kernels, where a target may be named; not the name of any target."""

Detect = Callable[[torch.device], bool]
Builder = Callable[..., Any]


class TensorSpec(NamedTuple):
    """Device, dtype and shape of an input, as a builder sees it; holds no data."""

    device: torch.device
    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The spec of a tensor."""
        return cls(tensor.device, tensor.dtype, tuple(tensor.shape))


@dataclass
class Registry:
    """All registrations; `version` changes with every one.

    A registration replaces its table, so that who walks one needs no lock.
    """

    detectors: dict[str, Detect] = field(default_factory=dict)
    builders: dict[tuple[str, str], Builder] = field(default_factory=dict)
    kernel_types: dict[tuple[str, str], Any] = field(default_factory=dict)
    default: str | None = None
    version: int = 0

    def copy(self) -> Registry:
        """The same registrations in tables of their own."""
        return replace(
            self,
            detectors=dict(self.detectors),
            builders=dict(self.builders),
            kernel_types=dict(self.kernel_types),
        )

    def targets(self, op: str | None = None) -> tuple[str, ...]:
        """Sorted names of targets: all, or those with a builder for `op`."""
        with_builder = {target for name, target in self.builders if op in {None, name}}
        return tuple(sorted(with_builder if op is not None else with_builder | {*self.detectors}))


lock = threading.RLock()
"""Held while the registry is loaded, changed or read as a whole."""

current = Registry()
"""The registrations of this process; replaced only by `restore`."""


def restore(saved: Registry) -> None:
    """Put the registrations back to `saved`, as a new version."""
    global current
    saved.version = current.version + 1
    current = saved


def register_detector(*, target: str, detect: Detect) -> None:
    """Register how a target claims a device.

    Args:
        target: name of the target.
        detect: from a device to whether the target claims it; answers from the device, an
            environment variable or a vendor runtime already loaded, and neither raises, imports
            nor locks.

    Raises:
        BackendError: the target has a detector, or an argument is not usable.
    """
    _check_target(target)
    _check_callable("detect", detect)
    with lock:
        known = current.detectors.get(target)
        if known is not None:
            raise _repeated(f"a detector of target {target!r}", known, detect)
        current.detectors = {**current.detectors, target: detect}
        current.version += 1


def register_kernel_builder(*, op: str, target: str, build_kernel: Builder) -> None:
    """Register what builds a target's kernel for an op.

    Args:
        op: name of the op class.
        target: name of the target.
        build_kernel: called with a `TensorSpec` or None per input and the parameters by name;
            returns the kernel, a callable.

    Raises:
        BackendError: the pair has a builder, or an argument is not usable.
    """
    _check_name("op", op)
    _check_target(target)
    _check_callable("build_kernel", build_kernel)
    with lock:
        known = current.builders.get((op, target))
        if known is not None:
            raise _repeated(f"a builder of target {target!r} for {op}", known, build_kernel)
        current.builders = {**current.builders, (op, target): build_kernel}
        current.version += 1


def register_kernel_type(op: str, key: str, kernel_type: type) -> None:
    """Add an implementation to the kernel interfaces of an op that its class inherits.

    Instances that exist do not see it; its contract is checked when an op is constructed.

    Args:
        op: name of the op class.
        key: key of the implementation, unlike the op's own.
        kernel_type: the class, a `Kernel` and a kernel interface of the op.

    Raises:
        BackendError: the key is registered for the op, or an argument is not usable.
    """
    _check_name("op", op)
    _check_name("key", key)
    if not isinstance(kernel_type, type):
        raise BackendError(f"kernel_type must be a class, got {kernel_type!r}")
    with lock:
        known = current.kernel_types.get((op, key))
        if known is not None:
            raise _repeated(f"a kernel type {key!r} for {op}", known, kernel_type)
        current.kernel_types = {**current.kernel_types, (op, key): kernel_type}
        current.version += 1


def set_default(target: str | None) -> None:
    """Set the process default; see `tileops.backend.set_default_target`."""
    with lock:
        if target is not None and target != BUILTIN and target not in current.targets():
            raise UnknownTargetError(unknown_target(target))
        current.default = target


def added_kernel_types(op: str) -> Mapping[str, Any]:
    """The kernel types that backends added to `op`, by key."""
    return {key: cls for (name, key), cls in current.kernel_types.items() if name == op}


def unknown_target(target: object) -> str:
    """The text for a target that nothing registered."""
    known = ", ".join(map(repr, current.targets())) or "none"
    return f"target {target!r} is not registered; known targets: {known}"


def _check_target(target: object) -> None:
    _check_name("target", target)
    if target == BUILTIN:
        raise BackendError(
            f"target {BUILTIN!r} stands for the in-tree kernels and is no target name"
        )


def _check_name(argument: str, value: object) -> None:
    if not (isinstance(value, str) and value):
        raise BackendError(f"{argument} must be a non-empty string, got {value!r}")
    if not value.isprintable():
        raise BackendError(f"{argument} must be printable, got {value!r}")


def _check_callable(argument: str, value: object) -> None:
    if not callable(value):
        raise BackendError(f"{argument} must be callable, got {value!r}")


def _repeated(what: str, known: object, new: object) -> BackendError:
    return BackendError(
        f"{what} is registered already, by {_owner(known)}; {_owner(new)} registers another"
    )


def _owner(value: object) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)
