"""Entries: what an op's body calls, selected and built for a call spec and kept.

Two levels. A call spec seen before is one look-up without a lock, and that table is bounded. Under
it stands one entry per interface, implementation and identity, which stays. An entry is stored
only when its factory and the tuning it was asked for have succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch

from tileops._core.devices import building_on, current_device
from tileops._core.dispatch import toolchain
from tileops._core.dispatch.call_spec import CallSpec, unkeyable_field
from tileops._core.dispatch.kernel import Kernel
from tileops._core.dispatch.select import Choice, choose
from tileops._core.dispatch.table import ImplementationTable
from tileops._core.lang.values import shown
from tileops._core.notes import add_note
from tileops._core.op.calls import Calls
from tileops._core.targets import loading, registry
from tileops.errors import DispatchError, OpNotAvailableError, candidate_lines

Answer = TypeVar("Answer")

MOST_CALL_SPECS = 4096
"""How many call specs are looked up directly; the oldest is dropped first."""


class Entries(Calls):
    """The kernel side of an op."""

    def kernel_for(self, interface: str, call: CallSpec) -> Any:
        """The entry that serves a call at a kernel interface, built when first needed.

        Args:
            interface: a key of `interfaces`.
            call: the facts of the call; states no device facts.

        Returns:
            A callable; the body keeps it in a local variable only.

        Raises:
            OpNotAvailableError: the interface is unknown, or nothing runs on the device.
            DispatchError: no implementation serves the call, or several do.
            TypeError: the call spec, or what the implementation returns, has the wrong form.
        """
        try:
            return self._entries_by_call[interface, call.table_key]
        except (AttributeError, KeyError, TypeError):
            pass  # Left behind here, it is not the context of what is raised from now on.
        return self._missing_entry(interface, call)

    def kernel_for_fields(self, *key: Any) -> Any:
        """The entry of `kernel_for`, for a call spec that is made only where it is not known yet.

        Making one takes longer than all else that finds an entry again. It is made each time where
        its class adds more than fields: what that class does with them is not known.

        Args:
            key: the interface, the class of the call spec, its device and its fields in order.

        Raises:
            Exception: as `kernel_for`, or as the class's constructor.
        """
        try:
            return self._entries_by_call[key]
        except (KeyError, TypeError, AttributeError):
            pass  # Left behind here, it is not the context of what is raised from now on.
        interface, request, device, *fields = key
        call = request(*fields, device=device)
        entry = self.kernel_for(interface, call)
        leans_on_current = device is None or device != call.device
        if not leans_on_current and call.table_key is not call:
            self._keep_entry(key, entry)
        return entry

    def key_for(self, interface: str, call: CallSpec) -> str:
        """The key of the implementation that would serve a call; builds nothing.

        Args:
            interface: a key of `interfaces`.
            call: the facts of the call; may state device facts, so that the answer is the same on
                every machine.

        Raises:
            OpNotAvailableError: the interface is unknown, or nothing runs on the device.
            DispatchError: no implementation serves the call, or several do.
            TypeError: the call spec has another type than the interface's.
        """
        self._demand_constructed()
        self._check_request(interface, call)
        if call.device is None and not call.stated_device_facts:
            call = _on_current_device(call)
        return self._key_of(self._choice(interface, call))

    def _missing_entry(self, interface: str, call: CallSpec) -> Any:
        """The entry for a call spec that is not in the table; one without a device never is."""
        if torch.compiler.is_dynamo_compiling():
            raise RuntimeError(
                f"{self._name}: interface {interface!r} has no kernel for this call yet, and a "
                "compiler cannot build one: call the op once before it is compiled"
            )
        if getattr(call, "device", self) is None:
            call = _on_current_device(call)
            entry = self._entries_by_call.get((interface, call.table_key))
            if entry is not None:
                return entry
        return self._make_entry(interface, call)

    def _make_entry(self, interface: str, call: CallSpec) -> Any:
        """Select and build for a call spec that is not in the table."""
        self._demand_constructed()
        self._check_request(interface, call)
        self._check_keyable(interface, call)
        choice = self._choice(interface, call)
        key = self._key_of(choice)
        if call.device is not None and call.device.type == "cuda":
            _warn_if_standing_in(self._name, choice)
        entry = self._entry_of(interface, key, call)
        self._keep_entry((interface, call.table_key), entry)
        return entry

    def _keep_entry(self, key: tuple[Any, ...], entry: Any) -> None:
        """Have an entry looked up by a key from now on, unless that cannot be hashed."""
        by_call = self._entries_by_call
        # A finaliser may have entries stored between any two steps.
        with self._build_lock, suppress(RuntimeError, TypeError):
            if len(by_call) >= MOST_CALL_SPECS:
                by_call.pop(next(iter(by_call)), None)
            by_call[key] = entry

    def _entry_of(self, interface: str, key: str, call: CallSpec) -> Any:
        """The entry for the call's identity, built if there is none."""
        cls = self._installed_kernel_types[key]
        doing = f"built {cls.__name__} (key {key!r}) for"
        identity, factory = self._noting(doing, interface, build_of, cls, call)
        with self._turn((interface, cls, identity)):
            entry = self._built_entries.get(interface, {}).get((cls, identity))
            if entry is not None:
                return entry
            with building_on(call.device):
                entry = self._noting(doing, interface, factory)
                if not callable(entry):
                    raise TypeError(
                        f"{cls.__name__}.entry_for: the factory returned {shown(entry)}, which is "
                        f"not callable, for the identity {shown(identity)}"
                    )
                asked = self._tune_requested
                for kernel in kernels_in(entry):
                    self._noting(doing, interface, kernel._demand_constructed)
                    if asked:
                        kernel.request_tune()
                with self._build_lock:
                    self._built_entries.setdefault(interface, {})[cls, identity] = entry
                if self._tune_requested and not asked:  # It was asked meanwhile.
                    for kernel in kernels_in(entry):
                        kernel.request_tune()
            return entry

    def _own_kernels(self) -> list[Kernel]:
        """The kernels of what is built, of every interface."""
        with self._build_lock:
            entries = [entry for built in self._built_entries.values() for entry in built.values()]
        return [kernel for entry in entries for kernel in kernels_in(entry)]

    def _built_kernels(self) -> str:
        """Which kernels may have computed a result, for the error of one that is wrong."""
        classes = dict.fromkeys(map(type, self._own_kernels()))
        names = (f"{cls.__name__} of {cls.__module__.partition('.')[0]}" for cls in classes)
        return f"kernels that {self._name} has built: {', '.join(names) or 'none'}"

    def _check_interface(self, interface: str) -> None:
        """The interface is declared."""
        if interface not in self.interfaces:
            declared = ", ".join(map(repr, self.interfaces)) or "none"
            raise OpNotAvailableError(
                f"{self._name} has no kernel interface {interface!r}; declared: {declared}; "
                f"{self._known_targets()}"
            )

    def _check_request(self, interface: str, call: CallSpec) -> None:
        """The interface is declared and the call spec is of its type."""
        self._check_interface(interface)
        request = self.interfaces[interface].request
        if not isinstance(call, request):
            raise TypeError(
                f"{self._name}: interface {interface!r} is asked with {request.__name__}, got "
                f"{type(call).__name__}"
            )

    def _check_keyable(self, interface: str, call: CallSpec) -> None:
        """The call spec can be a cache key and leaves device facts to the device."""
        unkeyable = unkeyable_field(call)
        if unkeyable is not None:
            name, kind = unkeyable
            raise TypeError(
                f"{type(call).__name__}.{name} holds a {kind.__name__}, which cannot be a cache key"
            )
        stated = call.stated_device_facts
        if stated:
            raise TypeError(
                f"{self._name}: the call spec for interface {interface!r} states the device facts "
                f"{', '.join(stated)}; kernel_for reads them from the device, key_for takes them "
                "as stated"
            )

    def _choice(self, interface: str, call: CallSpec) -> Choice:
        """The selection among the interface's implementations."""
        table = ImplementationTable(
            self._installed_kernel_types, self._keys_by_interface, self._preferred_over
        )
        doing = "selected an implementation for"
        return self._noting(doing, interface, choose, table, interface, call)

    def _noting(
        self, doing: str, interface: str, action: Callable[..., Answer], *args: Any
    ) -> Answer:
        """What an implementation answers; what it raises gets a note that names the op."""
        try:
            return action(*args)
        except Exception as error:
            add_note(error, f"while {self._name} {doing} its interface {interface!r}")
            raise

    def _key_of(self, choice: Choice) -> str:
        """The key chosen; otherwise the error that says why none is."""
        if choice.key is None:
            raise self._refusal(choice)
        return choice.key

    def _refusal(self, choice: Choice) -> DispatchError | OpNotAvailableError:
        """The error of a selection that ended without a key."""
        place = f"{self._name}, interface {choice.interface!r}"
        facts = choice.call.describe()
        if choice.outcome == "unavailable":
            device = "an unknown device" if choice.call.device is None else str(choice.call.device)
            message = (
                f"{place}: no implementation runs on {device}; {self._known_targets()}; "
                f"this instance has selected {self._serving_target!r}{loading.hint()}"
            )
            listed = (f"  {line}" for line in candidate_lines(choice.rows))
            return OpNotAvailableError("\n".join([message, *listed]))
        if choice.outcome == "unserved":
            return DispatchError(f"{place}: no implementation serves the call", choice.rows, facts)
        added = registry.who_added(self._name, choice.unbeaten)
        return DispatchError(
            f"{place}: {', '.join(map(repr, choice.unbeaten))} serve the call and none is "
            f"preferred; preferred_over on one of them settles it{f'; {added}' if added else ''}",
            choice.rows,
            facts,
        )

    def _known_targets(self) -> str:
        known = ", ".join(map(repr, registry.current.targets(self._name))) or "none"
        return f"targets with a builder for the op: {known}"


def kernels_in(entry: object) -> Iterator[Kernel]:
    """The kernels of an entry: itself, or those in its dataclass fields, tuples and lists."""
    if isinstance(entry, Kernel):
        yield entry
    elif isinstance(entry, (tuple, list)):
        for item in entry:
            yield from kernels_in(item)
    elif is_dataclass(entry) and not isinstance(entry, type):
        for part in fields(entry):
            yield from kernels_in(getattr(entry, part.name))


def _on_current_device(call: CallSpec) -> CallSpec:
    """The call on the accelerator's current device; as it is without an accelerator."""
    device = current_device()
    return call if device is None else call.on_device(device)


def build_of(cls: type[Kernel], call: CallSpec) -> tuple[Hashable, Callable[[], Any]]:
    """The identity and the factory that an implementation gives for a call."""
    pair: object = cls.entry_for(call)
    if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1])):
        raise TypeError(
            f"{cls.__name__}.entry_for returned {shown(pair)}, expected an identity and a callable"
        )
    try:
        hash(pair[0])
    except TypeError:
        raise TypeError(
            f"{cls.__name__}.entry_for returned the identity {shown(pair[0])}, "
            "which cannot be hashed"
        ) from None
    return pair


def _warn_if_standing_in(op: str, choice: Choice) -> None:
    """Say so when the choice fell on a portable implementation for want of TileLang."""
    reasons = (candidate.reason or "" for candidate in choice.candidates)
    if any(reason.startswith(toolchain.MISSING) for reason in reasons):
        toolchain.warn_stand_in(op, choice.interface)
