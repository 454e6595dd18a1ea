"""Call specs: the facts of one call that select and build a kernel.

A call spec is a value. Two are equal when their own fields, their device and the device facts that
were *stated* are equal; a fact that is read later from the device changes neither equality nor
hash. A call that was seen before needs nothing of its call spec but the key, so that most classes
keep a field in the key only, until it is asked for by name. Nothing here selects anything.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import torch

from tileops._core.devices import KNOWN_FORMS, normal_form
from tileops._core.dispatch.facts import DeviceFacts, device_facts
from tileops._core.dispatch.lean import is_plain, lean_methods
from tileops._core.locks import make_lock

Self = TypeVar("Self", bound="CallSpec")

FACTS = DeviceFacts._fields
"""Names of the device facts, in order."""

_specialising = make_lock()


class _Unstated(enum.Enum):
    """The default of a fact: to be read from the device when first asked for."""

    UNSTATED = enum.auto()

    def __repr__(self) -> str:
        return "unstated"


_UNSTATED: Any = _Unstated.UNSTATED


@dataclass(frozen=True)
class CallSpec:
    """Base of all call specs; a family adds its fields in a frozen dataclass.

    Field values must be usable as cache keys: None, bool, int, float, str, dtype, device, enum
    members, and tuples, frozensets and frozen dataclasses of these. A subclass with a
    `__post_init__` of its own calls this one.

    Args:
        device: where the call runs; None lets `kernel_for` take the accelerator's current device.
        arch: architecture, such as 90; read from the device when not stated, like those below.
        sm_count: number of multiprocessors.
        calibration: key of the calibrated board, or None.
        smem_budget: bytes of shared memory that a block may have.
    """

    device: torch.device | None = field(default=None, kw_only=True)
    arch: int = field(default=_UNSTATED, kw_only=True, compare=False, repr=False)
    sm_count: int = field(default=_UNSTATED, kw_only=True, compare=False, repr=False)
    calibration: str | None = field(default=_UNSTATED, kw_only=True, compare=False, repr=False)
    smem_budget: int = field(default=_UNSTATED, kw_only=True, compare=False, repr=False)
    _stated: tuple[tuple[str, Any], ...] = field(default=(), init=False, repr=False)
    _own_fields: ClassVar[tuple[Field[Any], ...]]
    _places: ClassVar[dict[str, int]] = {}
    """Where the key of a lean class holds its fields."""
    # What stands for the value in tables; equal where the values are.
    table_key: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__slots__" in cls.__dict__:
            raise TypeError(f"{cls.__name__}: the fields of a call spec are no slots")

    def __post_init__(self) -> None:
        _specialise(type(self))  # First: what a compiler meets here ends with it.
        values = self.__dict__
        if values["device"] is not None:
            values["device"] = normal_form(values["device"])
        _state(self, {name: values.pop(name) for name in FACTS})

    def __getattr__(self, name: str) -> Any:
        """Read a field from the key, or an unstated fact, and keep it on this call spec."""
        if name == "table_key":
            return self  # A class with methods of its own may compare by anything.
        if name in self._places:
            value = self.table_key[self._places[name]]
        elif name in FACTS:
            value = getattr(device_facts(self.device), name)
        else:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    @property
    def stated_device_facts(self) -> tuple[str, ...]:
        """Names of the device facts that the constructor call stated."""
        return tuple(name for name, _ in self._stated)

    def on_device(self: Self, device: torch.device | str | None) -> Self:
        """The same call on another device; stated facts stay, read ones are left behind."""
        copy = object.__new__(type(self))
        kept = (item.name for item in fields(self) if item.name not in FACTS)
        copy.__dict__.update((name, getattr(self, name)) for name in kept)
        copy.__dict__["device"] = None if device is None else normal_form(device)
        _state(copy, dict(self._stated))
        return copy

    def describe(self) -> str:
        """The stated fields that differ from their defaults, as `name=value, …`."""
        own = [(item, getattr(self, item.name)) for item in fields(self) if item.repr]
        shown = [(item.name, value) for item, value in own if value != item.default]
        return ", ".join(f"{name}={value!r}" for name, value in (*shown, *self._stated))


def _state(call: CallSpec, facts: dict[str, Any]) -> None:
    """Keep the facts that were stated, the others being left to be read; and make the key.

    Args:
        call: a call spec that is being made.
        facts: by name. Those passed as unstated are left out: a compiler passes the defaults.

    Raises:
        TypeError: some name is no fact's.
    """
    values, cls = call.__dict__, type(call)
    unknown = [name for name in facts if name not in FACTS]
    if unknown:
        raise TypeError(
            f"{cls.__name__}.__init__() got an unexpected keyword argument {unknown[0]!r}"
        )
    stated = tuple(
        (name, facts[name]) for name in FACTS if facts.get(name, _UNSTATED) is not _UNSTATED
    )
    if stated:
        for name, value in stated:  # One by one: compilers do not follow `update`.
            values[name] = value
        values["_stated"] = stated
    if cls._places:
        key = (cls, *(getattr(call, name) for name in cls._places))
        values["table_key"] = (*key, stated) if stated else key


def _specialise(cls: type[CallSpec]) -> None:
    """Replace a class's methods, once, by printed ones where it only adds fields.

    Nobody gets an instance before all is done: the constructor, past which no other thread waits
    here, is replaced last.
    """
    if "_own_fields" in cls.__dict__:
        return
    if torch.compiler.is_dynamo_compiling():
        raise RuntimeError(
            f"a compiler meets the first {cls.__name__}: call the op once before it is compiled"
        )
    with _specialising:
        if "_own_fields" in cls.__dict__:
            return
        base = {item.name for item in fields(CallSpec)}
        own = tuple(item for item in fields(cls) if item.name not in base)
        adds_only = cls.__post_init__ is CallSpec.__post_init__ and "__init__" in cls.__dict__
        cls._places = {}
        if adds_only and is_plain(own):
            _make_lean(cls, own)
        cls._own_fields = own


def _make_lean(cls: type[CallSpec], own: tuple[Field[Any], ...]) -> None:
    """Replace constructor, comparison and hash of a class that adds these fields."""
    names = ["device", *(item.name for item in own if item.compare)]
    cls._places = {name: place for place, name in enumerate(names, 1)}
    for name in names:
        _forget_default(cls, name)
    known = {"_known_devices": KNOWN_FORMS, "_normal_form": normal_form, "_state": _state}
    for method in reversed(lean_methods(cls.__name__, own, known)):
        method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
        setattr(cls, method.__name__, method)


def _forget_default(cls: type[CallSpec], name: str) -> None:
    """Remove the class attribute that a field's default is: it would hide `__getattr__`.

    The default itself stays in the field.
    """
    for owner in cls.__mro__:
        if name in vars(owner):
            delattr(owner, name)


for _name in FACTS:
    # The defaults live in the fields; as class attributes they would hide `__getattr__`.
    delattr(CallSpec, _name)


def own_values(call: object) -> list[Any]:
    """What a call spec was made with, facts that it was not told left out; else nothing."""
    if not isinstance(call, CallSpec):
        return []
    return [getattr(call, item.name) for item in fields(call) if item.name not in FACTS]


def unkeyable_field(call: CallSpec) -> tuple[str, type] | None:
    """The first compared field whose value cannot be a cache key, with the value's type."""
    for item in fields(call):
        if item.compare:
            for value in _leaves(getattr(call, item.name)):
                if not isinstance(value, _KEYABLE):
                    return item.name, type(value)
    return None


_KEYABLE = (type(None), bool, int, float, str, torch.dtype, torch.device, enum.Enum)


def _leaves(value: object) -> Iterator[object]:
    """The values a key consists of: members of tuples, frozensets and frozen dataclasses."""
    if isinstance(value, (tuple, frozenset)):
        for item in value:
            yield from _leaves(item)
    elif is_dataclass(value) and type(value).__dataclass_params__.frozen:  # type: ignore[union-attr]
        for part in fields(value):
            if part.compare:
                yield from _leaves(getattr(value, part.name))
    else:
        yield value
