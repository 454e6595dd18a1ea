"""Copies of an op: `copy`, `deepcopy` and pickle give a new instance of the same construction.

A copy has a key and locks of its own, nothing selected and no record. What construction fixed, the
attributes that the constructor set, tuned mode and the held sub-ops come along, these copied too.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MemberDescriptorType
from typing import Any, TypeVar

import torch

from tileops._core import instances
from tileops._core.notes import add_note
from tileops._core.op.composite import HeldOps
from tileops._core.op.gradient import Differentiated
from tileops._core.op.stack import held_place
from tileops._core.targets import loading

Self = TypeVar("Self", bound="Copies")

_OWN = frozenset({
    "_instance_key", "_bind_lock", "_build_lock", "_target_builder", "_serving_target",
    "_entries_by_call", "_built_entries", "_target_kernels", "_placed_tensors", "_delegates",
    "_delegate_stages", "_effect_branches", "_known_calls", "_latest_kind", "_has_stages",
    "_settled", "_unsettled_calls", "_turns", "_backward_op", "_last_call", "_tune_warned",
})  # fmt: skip
"""Fields that every instance has for itself."""

_FIXED = (
    "_construction_indices", "_installed_kernel_types", "_keys_by_interface", "_preferred_over",
)  # fmt: skip
"""Read-only fields that copies share, and that the process that loads a pickle works out again."""


def attributes_of(op: object) -> dict[str, Any]:
    """The attributes of an instance, those in slots of its class included."""
    slots = {name: getattr(op, name) for name in _slots(type(op)) if hasattr(op, name)}
    return {**op.__dict__, **slots}


def adopt(op: object, attributes: Mapping[str, Any]) -> None:
    """Give an instance that no constructor made the attributes of another."""
    slots = frozenset(_slots(type(op)))
    for name, value in attributes.items():
        if name in slots:
            object.__setattr__(op, name, value)
        else:
            op.__dict__[name] = value


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType):
                yield name


class _Trying(threading.local):
    """Whether this thread is pickling attributes to see that they can be."""

    now = False


_trying = _Trying()


class Copies(Differentiated):
    """How an op is copied."""

    def __copy__(self: Self) -> Self:
        """A new instance with the same attributes and copies of the sub-ops."""
        return self._copied({})

    def _copied(self: Self, made: dict[int, Any]) -> Self:
        """A copy; `made` has those of ops below, of which one may be held by several."""
        if id(self) not in made:
            held = [(stage, identity, op._copied(made)) for stage, identity, op in self._held()]
            values = {name: made.get(id(value), value) for name, value in self._carried().items()}
            made[id(self)] = self._revived(type(self).__new__(type(self)), values, held)
        copied: Self = made[id(self)]
        return copied

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """A new instance with copies of everything that it carries over."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        values = {
            name: self._attempt("copying", name, copy.deepcopy, value, memo)
            for name, value in self._carried().items()
        }
        held = [(stage, identity, copy.deepcopy(op, memo)) for stage, identity, op in self._held()]
        return self._revived(new, values, held)

    def __getstate__(self) -> tuple[dict[str, Any], HeldOps]:
        values = self._carried()
        if not _trying.now:
            # Attributes are tried from the outermost op only; one may lead back to it.
            _trying.now = True
            try:
                for name, value in values.items():
                    if not isinstance(value, (torch.Tensor, Copies)):
                        self._attempt("pickling", name, pickle.dumps, value)
            finally:
                _trying.now = False
        return values, self._held()

    def __setstate__(self, state: tuple[dict[str, Any], HeldOps]) -> None:
        loading.ensure_complete(type(self).__name__)
        adopt(self, state[0])
        self._construction_indices = self._check_construction()
        self._keep_parameters()
        self._install_table()
        self._begin(state[1])

    def _revived(self: Self, new: Self, values: dict[str, Any], held: HeldOps) -> Self:
        """`new` with the carried values, the tables of this instance and a life of its own."""
        adopt(new, values)
        for name in _FIXED:
            setattr(new, name, getattr(self, name))
        new._begin(held)
        return new

    def _begin(self, held: HeldOps) -> None:
        """Give an instance that no constructor made what every instance has for itself."""
        self._initialise_binding()
        self._instance_key = instances.register(self)
        self._create_tables()
        for stage, identity, op in held:
            self._keep(stage, identity, op)

    def _carried(self) -> dict[str, Any]:
        """What a copy has as well; tensors that calls have moved as they were bound."""
        self._demand_constructed()
        with self._bind_lock:  # A check may be moving one.
            attributes = attributes_of(self)
            for name, copies in self._placed_tensors.items():
                place = held_place(name)
                kept = place if place in attributes else name  # A slot has the name itself.
                if kept in attributes:  # A property of the class's own may keep it elsewhere.
                    attributes[kept] = copies.origin(attributes[kept])
        return {
            name: value
            for name, value in attributes.items()
            if name not in _OWN and name not in _FIXED
        }

    def _attempt(self, doing: str, name: str, action: Callable[..., Any], *args: Any) -> Any:
        """Run `action` on an attribute; what it raises gets a note that names the op."""
        try:
            return action(*args)
        except Exception as error:
            add_note(error, f"while {doing} the attribute {name!r} of {self._name}")
            raise
