"""What backends registered: detectors, builders, added kernel types, the process default.

The registry is process-wide and changed under one lock, which nobody holds for long: whoever
registers waits for no import. It imports nothing: `loading` fills it from entry points before it is
first asked. Names are checked here, contracts of kernel types when an op is constructed. Each
registration carries its origin, so that what a plug-in did can be withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple

import torch

from tileops._core import owners
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.owners import Origin
from tileops._core.plugins import labelled
from tileops.errors import BackendError, UnknownTargetError

GROUP = "tileops.backends"
"""The entry-point group of backend packages."""

BUILTIN = "builtin"
"""The op's own body, where a target may be named; not the name of any target.

The body runs the kernels of the tree and those that packages added to the op.
"""

WHERE_FROM = (
    f"a package registers its own by an entry point of the group {GROUP}, see `tileops doctor`"
)
"""Where targets come from, for messages."""

MOST_CHARACTERS = 200
"""How long a name may be."""

_MOST_OPS = 5
"""How many ops a message lists."""

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

    A registration replaces its table, so that nobody needs a lock to walk one. `origins` maps the
    name of a table and a key in it to where that registration comes from.
    """

    detectors: dict[str, Detect] = field(default_factory=dict)
    builders: dict[tuple[str, str], Builder] = field(default_factory=dict)
    kernel_types: dict[tuple[str, str], Any] = field(default_factory=dict)
    origins: dict[tuple[str, Any], Origin] = field(default_factory=dict)
    default: str | None = None
    version: int = 0

    def without(self, point: EntryPoint) -> Registry:
        """The registrations that are not a plug-in's."""
        gone = {place for place, origin in self.origins.items() if origin.is_of(point)}

        def kept(name: str) -> dict[Any, Any]:
            table = getattr(self, name)
            return {key: value for key, value in table.items() if (name, key) not in gone}

        return replace(
            self,
            detectors=kept("detectors"),
            builders=kept("builders"),
            kernel_types=kept("kernel_types"),
            origins={place: self.origins[place] for place in self.origins if place not in gone},
            version=self.version + 1,
        )

    def targets(self, op: str | None = None) -> tuple[str, ...]:
        """Sorted names of targets: all, or those with a builder for `op`."""
        with_builder = {target for name, target in self.builders if op in {None, name}}
        return tuple(sorted(with_builder if op is not None else with_builder | {*self.detectors}))


lock = make_lock()
"""Held while the registry changes."""

current = Registry()
"""The registrations of this process; replaced only when a plug-in's are withdrawn."""


def withdraw(point: EntryPoint) -> None:
    """Undo what a plug-in registered."""
    global current
    with lock:
        current = current.without(point)


owners.on_withdrawal(withdraw)


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
    _add("detectors", target, detect, f"a detector of target {target!r}")


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
    what = f"a builder of target {target!r} for {op}"
    _add("builders", (op, target), build_kernel, what)


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
        raise BackendError(f"kernel_type must be a class, got {shown(kernel_type)}")
    _add("kernel_types", (op, key), kernel_type, f"a kernel type {key!r} for {op}")


def _add(table: str, key: object, value: object, what: str) -> None:
    """Register a value, of which a message says `what` it is.

    Raises:
        BackendError: the place is taken, or the plug-in that registers failed to load.
    """
    origin = owners.origin(GROUP, value)
    with lock:
        refusal = owners.objection(origin)
        if refusal:
            raise BackendError(f"{what}: {refusal}")
        known = getattr(current, table)
        if key in known:
            raise BackendError(
                f"{what} is registered already, by {owners.module_of(known[key])}; "
                f"{owners.module_of(value)} registers another"
            )
        setattr(current, table, {**known, key: value})
        current.origins = {**current.origins, (table, key): origin}
        current.version += 1


def set_default(target: str | None) -> None:
    """Set the process default; see `tileops.backend.set_default_target`."""
    plugin = owners.importing(GROUP) or owners.helping(GROUP)
    if plugin is not None:
        raise BackendError(
            f"the default target is the user's choice; {labelled(plugin)} may not set it "
            "while it is imported"
        )
    with lock:
        if target is not None and target != BUILTIN and target not in current.targets():
            raise UnknownTargetError(unknown_target(target))
        current.default = target


def added_kernel_types(op: str) -> Mapping[str, Any]:
    """The kernel types that backends added to `op`, by key."""
    return {key: cls for (name, key), cls in current.kernel_types.items() if name == op}


def who_added(op: str, keys: Collection[str] | None = None) -> str:
    """Who added which kernel types to `op`, for messages; empty where nobody did.

    Args:
        op: name of the op class.
        keys: the keys that are meant; None for all.
    """
    found = []
    for key, cls in added_kernel_types(op).items():
        if keys is None or key in keys:
            owner = owner_of("kernel_types", (op, key))
            found.append(f"{key!r} by {labelled(owner) if owner else owners.module_of(cls)}")
    return f"kernel types were added: {', '.join(found)}" if found else ""


def owner_of(table: str, key: object) -> EntryPoint | None:
    """The plug-in that registered something; None where it is the process's own."""
    origin = current.origins.get((table, key))
    return None if origin is None else origin.owner


def unknown_target(target: object) -> str:
    """The text for a target that nothing registered."""
    known = ", ".join(map(repr, (BUILTIN, *current.targets())))
    return f"target {target!r} is not registered; known targets: {known}; {WHERE_FROM}"


def builders_near(op: str, target: str) -> str:
    """Ops for which a target has builders, those named most like `op`, for messages."""
    having = sorted(name for name, owner in current.builders if owner == target)
    near = get_close_matches(op, having, n=_MOST_OPS, cutoff=0.0)
    return ", ".join(near if len(having) <= _MOST_OPS else [*near, "…"]) or "no op"


def _check_target(target: object) -> None:
    _check_name("target", target)
    if target == BUILTIN:
        raise BackendError(f"target {BUILTIN!r} stands for the op's own body and is no target name")


def _check_name(argument: str, value: object) -> None:
    if not (isinstance(value, str) and value):
        raise BackendError(f"{argument} must be a non-empty string, got {shown(value)}")
    if not value.isprintable():
        raise BackendError(f"{argument} must be printable, got {value!r}")
    if len(value) > MOST_CHARACTERS:
        raise BackendError(
            f"{argument} must have at most {MOST_CHARACTERS} characters, got {len(value)}"
        )


def _check_callable(argument: str, value: object) -> None:
    if not callable(value):
        raise BackendError(f"{argument} must be callable, got {shown(value)}")
