"""Values as expressions see them to values that a constructor takes; no torch."""

from __future__ import annotations

from typing import Any

from tileops._core.lang.members import Accepted, AdtMember, DTypeMember
from tileops._core.lang.values import AdtView
from tileops._core.spec.model import Constructor, OpSpec, Param
from tileops._core.spec.objects import resolve


def names_a_dtype(param: Param, value: Any) -> bool:
    """Whether a value is the name of a dtype rather than a string."""
    members = param.type.node.members if param.type.node else ()
    taken = (m for m in members if isinstance(m.from_yaml(value, {}), Accepted))
    return isinstance(next(taken, None), DTypeMember)


def constructor_value(spec: OpSpec, param: Param, value: Any) -> Any:
    """The value to pass for a parameter; an algebraic one becomes an instance of its class.

    Raises:
        ImportError: a class cannot be imported.
        Exception: whatever the class raises for the fields.
    """
    if not isinstance(value, AdtView):
        return value
    constructor = constructor_of(spec, param, value)
    fields = {
        name: resolve(field.python)(value.fields[name]) if field.python else value.fields[name]
        for name, field in constructor.fields.items()
    }
    return resolve(constructor.python)(**fields)


def constructor_of(spec: OpSpec, param: Param, value: AdtView) -> Constructor:
    """The constructor that a parameter's value was made by."""
    members = param.type.node.members if param.type.node else ()
    adts = [spec.adts[m.name] for m in members if isinstance(m, AdtMember)]
    return next(c for adt in adts if (c := adt.constructors.get(value.kind)))
