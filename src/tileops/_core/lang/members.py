"""The members of a parameter type: which values each takes, and the kind it gives."""

from __future__ import annotations

import enum
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from tileops._core.lang.declared import dataclass
from tileops._core.lang.dtypes import is_registered, name_of
from tileops._core.lang.kinds import (
    BOOL,
    INT,
    NONE,
    STR,
    VALUE,
    AdtKind,
    BoolKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    SeqKind,
)
from tileops._core.lang.values import AdtView, shown

AdtFields: TypeAlias = Mapping[str, Mapping[str, Kind]]
"""Constructor → field → kind."""


class Resolver(Protocol):
    """Finds the Python classes that a type names."""

    def object_class(self, dotted: str) -> type | None:
        """The class of that name among the modules already imported."""

    def constructor_classes(self, adt: str) -> Mapping[str, type]:
        """The class of each constructor of an algebraic type."""


@dataclass(frozen=True)
class Accepted:
    """A value in the form that expressions see."""

    value: object


@dataclass(frozen=True)
class Refused:
    """A value that is not taken; `type_fits` tells that its Python type would be."""

    type_fits: bool
    reason: str = ""


Verdict: TypeAlias = Accepted | Refused
WRONG_TYPE, WRONG_VALUE = Refused(False), Refused(True)


class Member(ABC):
    """One alternative of a parameter type."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of the values taken."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What is taken, for messages."""

    @abstractmethod
    def accept(self, value: object, resolver: Resolver) -> Verdict:
        """Judge a Python value given to a constructor."""

    def from_yaml(self, value: object, adts: Mapping[str, AdtFields]) -> Verdict:
        """Judge a value read from YAML: as one given to a constructor, unless overridden."""
        del adts
        return self.accept(value, ImportedClasses())


@dataclass(frozen=True)
class IntMember(Member):
    """`int`; a bool is none."""

    kind = INT
    expected = "an int"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        return Accepted(value) if _is_int(value) else WRONG_TYPE


@dataclass(frozen=True)
class BoolMember(Member):
    """`bool`."""

    kind = BOOL
    expected = "a bool"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        return Accepted(value) if isinstance(value, bool) else WRONG_TYPE


@dataclass(frozen=True)
class FloatMember(Member):
    """`float`: a real number; a bool only beside `int`, of which it is one."""

    takes_bool: bool = False
    kind = VALUE
    expected = "a number"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        if isinstance(value, int) and not _fits_float(value):
            return Refused(True, f"expected a number that a float can hold, got {shown(value)}")
        is_number = isinstance(value, float) or _is_int(value)
        takes = is_number or (self.takes_bool and isinstance(value, bool))
        return Accepted(value) if takes else WRONG_TYPE


@dataclass(frozen=True)
class NumberMember(Member):
    """`Number`: a bool, an int, a float or a complex."""

    kind = VALUE
    expected = "a number"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        return Accepted(value) if isinstance(value, int | float | complex) else WRONG_TYPE


@dataclass(frozen=True)
class StrMember(Member):
    """`str`."""

    kind = STR
    expected = "a str"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        return Accepted(value) if isinstance(value, str) else WRONG_TYPE


@dataclass(frozen=True)
class NoneMember(Member):
    """`None`."""

    kind = NONE
    expected = "None"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        return Accepted(None) if value is None else WRONG_TYPE


@dataclass(frozen=True)
class LiteralMember(Member):
    """A quoted literal: the equal `str`, or an enum member whose value is it."""

    literal: str

    @property
    def kind(self) -> Kind:
        return EnumKind(frozenset({self.literal}))

    @property
    def expected(self) -> str:
        return repr(self.literal)

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        text = value.value if isinstance(value, enum.Enum) else value
        if not isinstance(text, str):
            return WRONG_TYPE
        return Accepted(self.literal) if text == self.literal else WRONG_VALUE


@dataclass(frozen=True)
class DTypeMember(Member):
    """A dtype by name, or any registered one when `name` is None."""

    name: str | None

    @property
    def kind(self) -> Kind:
        return DTypeKind(None if self.name is None else frozenset({self.name}))

    @property
    def expected(self) -> str:
        return self.name or "a torch.dtype"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        name = name_of(value)
        return WRONG_TYPE if name is None else self._named(name)

    def from_yaml(self, value: object, adts: Mapping[str, AdtFields]) -> Verdict:
        return self._named(value) if isinstance(value, str) else WRONG_TYPE

    def _named(self, name: str) -> Verdict:
        admitted = is_registered(name) if self.name is None else name == self.name
        return Accepted(name) if admitted else WRONG_VALUE


@dataclass(frozen=True)
class SequenceMember(Member):
    """`list[E]`, `tuple[E, ...]` (`is_open`) or `tuple[E1, …, En]`.

    `optional` tells for each element type whether it admits None.
    """

    is_list: bool
    optional: tuple[bool, ...]
    is_open: bool

    @property
    def kind(self) -> Kind:
        element: Kind = MaybeKind(INT) if any(self.optional) else INT
        return SeqKind(element, None if self.is_open else len(self.optional))

    @property
    def expected(self) -> str:
        items = "int or None" if any(self.optional) else "int"
        count = "" if self.is_open else f"{len(self.optional)} "
        return f"a list or tuple of {count}{items}"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        if not isinstance(value, list | tuple):
            return WRONG_TYPE
        if not self.is_open and len(value) != len(self.optional):
            return WRONG_VALUE
        optional = self.optional * len(value) if self.is_open else self.optional
        for item, admits_none in zip(value, optional, strict=True):
            if not _is_int(item) and not (item is None and admits_none):
                return WRONG_TYPE
        return Accepted(list(value) if self.is_list else tuple(value))


@dataclass(frozen=True)
class AdtMember(Member):
    """A value of an algebraic type: an instance of the class of the constructor it names."""

    name: str

    @property
    def kind(self) -> Kind:
        return AdtKind(self.name)

    @property
    def expected(self) -> str:
        return f"a {self.name}"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        for name, cls in resolver.constructor_classes(self.name).items():
            if isinstance(value, cls):
                kind = _kind_of(value)
                fault = f"a {cls.__name__} has the kind {name!r}, got one with {shown(kind)}"
                is_it = isinstance(kind, str) and kind == name
                return Accepted(value) if is_it else Refused(True, fault)
        return WRONG_TYPE

    def from_yaml(self, value: object, adts: Mapping[str, AdtFields]) -> Verdict:
        if not isinstance(value, dict) or len(value) != 1:
            return WRONG_TYPE
        [(constructor, given)] = value.items()
        fields = adts.get(self.name, {}).get(constructor)
        if fields is None:
            return Refused(True, f"{self.name} has no constructor {shown(constructor)}")
        if not isinstance(given, dict) or given.keys() != fields.keys():
            listed = ", ".join(fields) or "no fields"
            return Refused(True, f"expected {constructor} with {listed}, got {shown(given)}")
        for name, kind in fields.items():
            if not has_field_kind(given[name], kind):
                return Refused(
                    True, f"expected {kind} for {constructor}.{name}, got {shown(given[name])}"
                )
        return Accepted(AdtView(constructor, dict(given)))


@dataclass(frozen=True)
class ObjectMember(Member):
    """An instance of the named class; from YAML any scalar or mapping."""

    name: str
    kind = VALUE

    @property
    def expected(self) -> str:
        return f"an instance of {self.name}"

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        cls = resolver.object_class(self.name)
        if cls is not None:
            return Accepted(value) if isinstance(value, cls) else WRONG_TYPE
        bare = self.name.rpartition(".")[2]
        is_instance = any(base.__name__ == bare for base in type(value).__mro__)
        return Accepted(value) if is_instance else WRONG_TYPE

    def from_yaml(self, value: object, adts: Mapping[str, AdtFields]) -> Verdict:
        if value is None or isinstance(value, list):
            return WRONG_TYPE
        is_device = self.name == "torch.device"  # which is written as a text
        is_wrong = is_device and isinstance(value, int | float | dict)
        return WRONG_TYPE if is_wrong else Accepted(value)


class ImportedClasses:
    """Finds classes among the modules already imported; knows no algebraic type."""

    def object_class(self, dotted: str) -> type | None:
        """The class of that name; nothing is imported to find it."""
        module, _, path = dotted.rpartition(".")
        names = [path]
        while module and module not in sys.modules:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
        found: object = sys.modules[module or "builtins"]
        for name in names:
            found = vars(found).get(name) if hasattr(found, "__dict__") else None
        return found if isinstance(found, type) else None

    def constructor_classes(self, adt: str) -> Mapping[str, type]:
        """No classes."""
        del adt
        return {}


def _kind_of(value: object) -> object:
    """The constructor that a value names; None where reading it fails."""
    try:
        return getattr(value, "kind", None)
    except Exception:
        return None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fits_float(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def has_field_kind(value: object, kind: Kind) -> bool:
    """Whether a value has the kind of a constructor's field."""
    if isinstance(kind, BoolKind):
        return isinstance(value, bool)
    if isinstance(kind, EnumKind):
        return isinstance(value, str) and value in kind.literals
    if isinstance(kind, DimKind):
        return isinstance(value, int) and _is_int(value) and value >= 0
    return isinstance(kind, IntKind) and _is_int(value)
