"""Values of algebraic types that a constructor was given: their classes, fields, invariants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops._core.lang.members import AdtMember, ImportedClasses, has_field_kind
from tileops._core.lang.param_types import ParamType
from tileops._core.lang.values import read_field, shown
from tileops._core.spec.model import Adt, Constructor
from tileops._core.spec.objects import class_of


class Classes(ImportedClasses):
    """The Python classes that a spec names.

    Args:
        adts: the algebraic types that its parameters may have.
    """

    def __init__(self, adts: Mapping[str, Adt]) -> None:
        self._adts = adts

    def constructor_classes(self, adt: str) -> Mapping[str, type]:
        """The class of each constructor, resolved when it is first asked for."""
        constructors = self._adts[adt].constructors.values()
        return {c.name: class_of(c.python) for c in constructors}

    def constructor_of(self, value: Any, declared: ParamType) -> Constructor | None:
        """The constructor of an accepted value of an algebraic type; None for other values."""
        for member in declared.members:
            if isinstance(member, AdtMember):
                for constructor in self._adts[member.name].constructors.values():
                    if isinstance(value, class_of(constructor.python)):
                        return constructor
        return None


class AdtScope:
    """The names that an invariant reads: the fields of one value.

    Args:
        constructor: the value's constructor.
        value: the value.
    """

    def __init__(self, constructor: Constructor, value: object) -> None:
        self._constructor = constructor
        self._value = value

    def value(self, name: str) -> Any:
        """A field."""
        return read_field(self._value, name)

    def present(self, name: str) -> bool:
        """Every field is there."""
        return name in self._constructor.fields

    def bytes(self, name: str) -> int:
        """No field is a tensor."""
        raise KeyError(name)


def bad_field(constructor: Constructor, value: object) -> str | None:
    """What is wrong with a field of a value, or None."""
    for name, field in constructor.fields.items():
        try:
            found = read_field(value, name)
        except AttributeError:
            return f"{constructor.name} needs a field {name}, got {shown(value)}"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return f"the field {name} of {constructor.name} cannot be read: {reason}"
        if field.kind is not None and not has_field_kind(found, field.kind):
            return f"expected {field.kind} for {constructor.name}.{name}, got {shown(found)}"
        if field.python is not None and not isinstance(
            getattr(value, name), class_of(field.python)
        ):
            return f"expected a {field.python} for {constructor.name}.{name}, got {shown(found)}"
    return None
