"""Values as expressions see them to values that a constructor takes; dtypes stay names."""

from __future__ import annotations

import importlib
from typing import Any

from tileops._core.lang.members import AdtMember
from tileops._core.lang.values import AdtView
from tileops._core.spec.model import OpSpec, Param


def constructor_value(spec: OpSpec, param: Param, value: Any) -> Any:
    """The value to pass for a parameter; an algebraic one becomes an instance of its class.

    Raises:
        ImportError: a class cannot be imported.
        AttributeError: a module lacks the class.
        Exception: whatever the class raises for the fields.
    """
    if not isinstance(value, AdtView) or param.type.node is None:
        return value
    adts = [spec.adts[m.name] for m in param.type.node.members if isinstance(m, AdtMember)]
    constructor = next(c for adt in adts if (c := adt.constructors.get(value.kind)))
    fields = {
        name: resolve(field.python)(value.fields[name]) if field.python else value.fields[name]
        for name, field in constructor.fields.items()
    }
    return resolve(constructor.python)(**fields)


def resolve(path: str) -> Any:
    """The object at a dotted name.

    Raises:
        ImportError: its module cannot be imported.
        AttributeError: its module lacks it.
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
