"""The implementation table of an op: which implementation stands under which key.

A table is made from what the op class declares and what backends added, its contract is checked
once, and it never changes. Classes are resolved, no device is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tileops._core.dispatch.call_spec import CallSpec
from tileops._core.dispatch.interface import KernelInterface
from tileops._core.dispatch.kernel import Kernel
from tileops._core.lang.values import shown
from tileops._core.plugins import described

KernelTypes = Mapping[str, type[Kernel]]
Interfaces = Mapping[str, type[KernelInterface]]


@dataclass(frozen=True)
class ImplementationTable:
    """Implementations by key, keys by interface, and the transitive preference among keys."""

    kernel_types: KernelTypes
    keys_by_interface: Mapping[str, tuple[str, ...]]
    preferred_over: Mapping[str, frozenset[str]]


EMPTY_TABLE = ImplementationTable(MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))


def install(
    op: str, interfaces: Interfaces, in_tree: KernelTypes, added: KernelTypes
) -> ImplementationTable:
    """The checked table of op `op`; in-tree implementations come first.

    Raises:
        TypeError: an interface, an implementation or one of its methods has the wrong form.
        ValueError: keys or preferences contradict each other.
    """
    shared = sorted(set(in_tree) & set(added))
    if shared:
        raise ValueError(f"{op}: added kernel types reuse the keys {_listed(shared)}")
    kernel_types = {**in_tree, **added}
    _check_interfaces(op, interfaces)
    _check_classes(op, interfaces, kernel_types)
    keys_by_interface = {
        name: tuple(key for key, cls in kernel_types.items() if _inherits(cls, interface))
        for name, interface in interfaces.items()
    }
    _check_builders(op, interfaces, keys_by_interface, kernel_types)
    _check_membership(op, interfaces, keys_by_interface, kernel_types)
    _check_general(op, keys_by_interface, kernel_types)
    _check_preferences(op, keys_by_interface, kernel_types, added)
    return ImplementationTable(
        MappingProxyType(kernel_types),
        MappingProxyType(keys_by_interface),
        MappingProxyType(_transitive(op, keys_by_interface, kernel_types)),
    )


def _check_interfaces(op: str, interfaces: Interfaces) -> None:
    for name, interface in interfaces.items():
        if not _is_class_of(interface, KernelInterface):
            raise TypeError(
                f"{op}: interface {name!r} is {shown(interface)}, not a KernelInterface class"
            )
        request = getattr(interface, "request", None)
        if not _is_class_of(request, CallSpec):
            raise TypeError(
                f"{op}: interface {name!r}: {interface.__name__}.request is {shown(request)}, "
                "not a CallSpec class"
            )


def _check_classes(op: str, interfaces: Interfaces, kernel_types: KernelTypes) -> None:
    for key, cls in kernel_types.items():
        if not isinstance(cls, type):
            raise TypeError(
                f"{op}: kernel type {key!r} is {shown(cls)}, not a class that inherits Kernel and "
                "a kernel interface"
            )
        for name, interface in interfaces.items():
            if _inherits(cls, interface) and not _inherits(cls, Kernel):
                raise TypeError(
                    f"{op}: kernel type {key!r}: {cls.__name__} implements the interface {name!r} "
                    "but does not inherit Kernel"
                )


def _check_builders(
    op: str,
    interfaces: Interfaces,
    keys_by_interface: Mapping[str, tuple[str, ...]],
    kernel_types: KernelTypes,
) -> None:
    members = [(name, key) for name, keys in keys_by_interface.items() for key in keys]
    for _, key in members:
        fault = _declaration_fault(kernel_types[key])
        if fault:
            name = kernel_types[key].__name__
            raise TypeError(f"{op}: kernel type {key!r}: {name}.{fault}")
    for name, key in members:
        fault = _call_fault(kernel_types[key], interfaces[name])
        if fault:
            raise TypeError(
                f"{op}: kernel type {key!r}: {kernel_types[key].__name__}.forward does not take "
                f"the arguments of {interfaces[name].__name__}.forward: {fault}"
            )


def _declaration_fault(cls: type[Kernel]) -> str | None:
    """Which member of a class has the wrong form, with what is wrong, or None."""
    for method in ("entry_for", "refusal"):
        if not isinstance(inspect.getattr_static(cls, method), classmethod):
            return f"{method} is not a classmethod"
    for name, (is_right, words) in _DECLARED.items():
        try:
            value = getattr(cls, name)
            right = is_right(value)
        except Exception as error:
            return f"{name} cannot be read: {described(error)}"
        if not right:
            return f"{name} is {shown(value)}, not {words}"
    return None


def _is_set_of(kind: type) -> Callable[[object], bool]:
    """Whether a value is a collection of a kind; a single text is none."""

    def is_right(value: object) -> bool:
        if isinstance(value, str) or not isinstance(value, Collection):
            return False
        return all(isinstance(item, kind) for item in value)

    return is_right


_DECLARED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "devices": (_is_set_of(str), "a set of device types"),
    "supported_archs": (lambda value: value is None or _is_set_of(int)(value), "a set of integers"),
    "preferred_over": (_is_set_of(str), "a set of keys"),
    "general": (lambda value: isinstance(value, bool), "True or False"),
}
"""What a class declares, by name: whether a value has the form, and the form in words."""


def _call_fault(cls: type[Kernel], interface: type[KernelInterface]) -> str | None:
    """Why `cls.forward` cannot be called as the interface's `forward`, or None."""
    wanted = list(inspect.signature(interface.forward).parameters.values())
    positional = [p for p in wanted if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    keywords = [p for p in wanted if p.kind is p.KEYWORD_ONLY]
    required = [p for p in positional if p.default is p.empty]
    offered: object = cls.forward
    if not callable(offered):
        return f"it is {shown(offered)}"
    try:
        signature = inspect.signature(offered)
    except (TypeError, ValueError):
        return None  # A compiled function need not show what it takes.
    for count in (len(positional), len(required)):
        try:
            signature.bind(*[None] * count, **{p.name: None for p in keywords})
        except TypeError as error:
            return f"with {count - 1} positional arguments: {error}"
    return None


def _check_membership(
    op: str,
    interfaces: Interfaces,
    keys_by_interface: Mapping[str, tuple[str, ...]],
    kernel_types: KernelTypes,
) -> None:
    served = {key for keys in keys_by_interface.values() for key in keys}
    strays = [key for key in kernel_types if key not in served]
    if strays:
        known = _listed(interfaces) if interfaces else "none"
        raise ValueError(
            f"{op}: the kernel types {_listed(strays)} implement no interface of the op; it "
            f"declares {known}"
        )


def _check_general(
    op: str, keys_by_interface: Mapping[str, tuple[str, ...]], kernel_types: KernelTypes
) -> None:
    for name, keys in keys_by_interface.items():
        general = [key for key in keys if kernel_types[key].general]
        if len(general) > 1:
            raise ValueError(
                f"{op}: interface {name!r} has several general implementations: {_listed(general)}"
            )


def _check_preferences(
    op: str,
    keys_by_interface: Mapping[str, tuple[str, ...]],
    kernel_types: KernelTypes,
    added: KernelTypes,
) -> None:
    """Demand preferences over other keys; an added one may name keys that are not there."""
    for name, keys in keys_by_interface.items():
        for key in keys:
            cls = kernel_types[key]
            beaten = frozenset(cls.preferred_over)
            if key in added and not cls.general:  # of a package that need not be installed
                beaten &= kernel_types.keys()
            faulty = beaten if cls.general else beaten - (set(keys) - {key})
            if faulty:
                reason = (
                    "is general and declares preferred_over"
                    if cls.general
                    else "declares preferred_over with keys that are no other key of it:"
                )
                raise ValueError(f"{op}: interface {name!r}: {key!r} {reason} {_listed(faulty)}")


def _transitive(
    op: str, keys_by_interface: Mapping[str, tuple[str, ...]], kernel_types: KernelTypes
) -> dict[str, frozenset[str]]:
    """For each key all that it beats of those that are there, directly or through others."""
    closed: dict[str, frozenset[str]] = {}
    for start in kernel_types:
        reached: set[str] = set()
        waiting = list(kernel_types[start].preferred_over)
        while waiting:
            key = waiting.pop()
            if key in kernel_types and key not in reached:
                reached.add(key)
                waiting.extend(kernel_types[key].preferred_over)
        closed[start] = frozenset(reached)
    cycle = [key for key, beaten in closed.items() if key in beaten]
    if cycle:
        first = cycle[0]
        on_it = [key for key in cycle if key in closed[first] and first in closed[key]]
        name = next(name for name, keys in keys_by_interface.items() if first in keys)
        raise ValueError(
            f"{op}: interface {name!r}: preferred_over forms a cycle through {_listed(on_it)}"
        )
    return closed


def _is_class_of(value: object, base: type) -> bool:
    return isinstance(value, type) and _inherits(value, base)


def _inherits(cls: type, base: type) -> bool:
    """Whether a class has another among its bases; one that is only registered has no methods."""
    return base in cls.__mro__


def _listed(names: Iterator[str] | frozenset[str] | list[str] | Interfaces) -> str:
    return ", ".join(repr(name) for name in sorted(names))
