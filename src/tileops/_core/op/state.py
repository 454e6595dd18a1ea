"""The state of an op: what a class declares, what an instance holds, and how long each lasts.

Three groups. The *construction* group is never written after construction. The *binding* group
depends on the selected target and is reset when the call that selected it fails. The *running*
group is what calls leave behind; it survives a reset. A new field belongs to one of them, is
created by construction or has a class value, and is handled by `copying`.
"""

from __future__ import annotations

import enum
import threading
from abc import ABC
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

import torch

from tileops._core.boundary.boundary import CallEntry
from tileops._core.boundary.parameters import CallParameter
from tileops._core.dispatch.kernel import Kernel
from tileops._core.dispatch.table import EMPTY_TABLE
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.op.kinds import NO_KIND, Kind

if TYPE_CHECKING:
    from tileops._core.op.base import Op
    from tileops._core.op.stack import Report
    from tileops._core.runtime.construction import Constructed
    from tileops._core.runtime.placement import DeviceCopies
    from tileops._core.runtime.plan import _SignaturePlan
    from tileops._core.runtime.record import SignatureCall
    from tileops._core.spec.model import OpSpec


class _Unresolved(enum.Enum):
    """The builder of an instance that has selected no target."""

    UNRESOLVED = enum.auto()

    def __repr__(self) -> str:
        return "unresolved"


_UNRESOLVED: Any = _Unresolved.UNRESOLVED

TargetKernel = Callable[..., Any]
TargetKey = tuple[Any, ...]
EntryKey = tuple[type[Kernel], Hashable]
Binding = tuple["str | None", "Callable[..., TargetKernel] | None", "dict[TargetKey, TargetKernel]"]
"""Who serves, the builder, None for the op's own body, and the kernels that it built."""


class OpState(ABC):
    """Declarations of a class and fields of an instance."""

    # What an op class declares.
    kernel_types: ClassVar[Mapping[str, type[Kernel]]] = MappingProxyType({})
    """Implementations by key."""
    interfaces: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({})
    """The places where the op calls a kernel: `KernelInterface` classes by name.

    They are abstract, which a type of classes does not admit.
    """
    delegate_types: ClassVar[Mapping[str, type[Op]]] = MappingProxyType({})
    """The class of sub-op that each stage may hold; the order is the stage order."""
    injected_parameters: ClassVar[tuple[str, ...]] = ()
    """Constructor arguments beyond the spec's parameters and `target`."""
    dtype: torch.dtype | None = None
    """The dtype that an op takes as a parameter; None where the spec declares none."""

    # What the definition of a class puts there.
    compile_op_names: ClassVar[tuple[str, ...]] = ()
    """Names of the registered operators, sorted; empty without a compile boundary."""
    _parameter_names: ClassVar[tuple[str, ...]] = ()
    # A class without a spec has None here and cannot be called.
    _spec: ClassVar[OpSpec] = None  # type: ignore[assignment]
    _signature: ClassVar[_SignaturePlan] = None  # type: ignore[assignment]
    _call_parameters: ClassVar[tuple[CallParameter, ...]] = ()
    _call_entry: ClassVar[CallEntry | None] = None
    _replaced_members: ClassVar[tuple[str, ...]] = ()
    """Members of the class body that generated ones replaced; the validator reports them."""
    _fixed_names: ClassVar[frozenset[str]] = frozenset({"target"})
    """`target` and the parameters that are no tensors: checked once, by construction."""

    # Construction group.
    target: str | None
    _construction_indices: Constructed
    _installed_kernel_types: Mapping[str, type[Kernel]] = EMPTY_TABLE.kernel_types
    _preferred_over: Mapping[str, frozenset[str]] = EMPTY_TABLE.preferred_over
    _keys_by_interface: Mapping[str, tuple[str, ...]] = EMPTY_TABLE.keys_by_interface
    _instance_key: str | None = None
    _bind_lock: threading.RLock
    _build_lock: threading.RLock
    _turns: WeakValueDictionary[Hashable, threading.RLock]
    """A lock per thing that is being built, which lives while a thread builds it or waits."""
    _has_stages: bool
    """Whether the class declares stages."""

    # Binding group.
    _target_builder: Callable[..., TargetKernel] | None = _UNRESOLVED
    _serving_target: str | None = None
    _entries_by_call: dict[tuple[Any, ...], Any]
    _built_entries: dict[str, dict[EntryKey, Any]]
    _target_kernels: dict[TargetKey, TargetKernel]
    _settled: Binding | None = None
    """What was selected, once a call that runs on it is complete."""
    _unsettled_calls: dict[int, list[Report]]
    """The calls that run, or were interrupted, on a selection that is not settled."""

    # Running group; the construction-time tensors belong to it too.
    composition_only: bool = False
    """Whether injected objects exclude a target's builder."""
    _placed_tensors: dict[str, DeviceCopies]
    _delegates: dict[str, dict[Hashable, Op]]
    _delegate_stages: dict[int, str]
    _effect_branches: dict[tuple[bool, ...], Any]
    _known_calls: dict[Any, Kind]
    _latest_kind: Kind = NO_KIND
    """That of the latest call, where inputs alone may tell it."""
    _backward_op: Op | None = None
    _last_call: SignatureCall | None = None
    _tune_requested: bool = False
    _tune_warned: bool = False

    def __repr__(self) -> str:
        """The class with its parameters, as far as construction has come."""
        known = (name for name in self._parameter_names if hasattr(self, name))
        given = ", ".join(f"{name}={shown(getattr(self, name))}" for name in known)
        return f"{type(self).__name__}({given})"

    if not TYPE_CHECKING:
        # A type checker would take any attribute for one that may be assigned.

        def __setattr__(self, name: str, value: Any) -> None:
            """Assign an attribute; what construction checked stays, as calls rely on it."""
            if self._instance_key is not None:
                if name in self._fixed_names:
                    if value is getattr(self, name, self):
                        return
                    raise self._fixed(name, "assigned")
                if name in self._declared_names():
                    with self._bind_lock:  # The check of a call may be about to bind a copy.
                        is_new = not self._knows(name, value)
                        if is_new:
                            self._forget()
                        super().__setattr__(name, value)
                        if is_new:  # A call may have found new tables, and not this tensor yet.
                            self._forget()
                    return
            super().__setattr__(name, value)

        def __delattr__(self, name: str) -> None:
            """Delete an attribute that is neither `target` nor a parameter."""
            is_declared = name in self._fixed_names or name in self._declared_names()
            if self._instance_key is not None and is_declared:
                raise self._fixed(name, "deleted")
            super().__delattr__(name)

        def _declared_names(self) -> tuple[str, ...]:
            """The parameters of the class's spec, its own or an inherited one."""
            return () if self._signature is None else self._signature.parameter_names

    def _fixed(self, name: str, done: str) -> AttributeError:
        return AttributeError(
            f"{type(self).__name__}: {name} cannot be {done} after construction; construct "
            "another op instead"
        )

    def _knows(self, name: str, value: object) -> bool:
        """Whether a value is the construction-time tensor that is bound, or a copy of it."""
        copies = self._placed_tensors.get(name)
        return value is getattr(self, name, None) or (copies is not None and copies.knows(value))

    def _forget(self) -> None:
        """Drop what was found and built for a construction-time tensor."""
        self._known_calls = {}
        self._latest_kind = NO_KIND
        self._target_kernels = {}
        if self._settled is not None:
            self._settled = *self._settled[:2], self._target_kernels

    def _turn(self, key: Hashable) -> threading.RLock:
        """The lock that a thread holds while it builds what this key stands for.

        Threads that want something else do not wait for it, so that building may wait for them.
        """
        with self._build_lock:
            return self._turns.setdefault(key, make_lock())

    def _unconstructed(self) -> RuntimeError:
        """The error of an instance without a key."""
        return RuntimeError(
            f"{type(self).__name__} was not wholly constructed: its constructor must call "
            "super().__init__"
        )

    def _demand_constructed(self) -> None:
        if self._instance_key is None:
            raise self._unconstructed()

    def _initialise_binding(self) -> None:
        """Give the binding group its initial values, in new tables.

        An interrupt may leave it half done: what calls look at first goes first.
        """
        self._settled = None
        self._unsettled_calls = {}
        self._target_builder = _UNRESOLVED
        self._serving_target = None
        self._entries_by_call = {}
        self._built_entries = {}
        self._target_kernels = {}
