"""Constructors of call specs, printed without the detours of a general dataclass.

A body makes a call spec on every call, so making, hashing and comparing one counts. For a class
that only adds fields, the three methods are printed once, with the same meaning: the fields become
one tuple, which holds the class too, and equality and hash go by it. Tables use that tuple as the
key, since it compares without a call into Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field
from typing import Any

from tileops._core.codegen.loading import compile_source
from tileops._core.codegen.writer import SourceWriter, identifier

Methods = tuple[Callable[..., None], Callable[..., bool], Callable[..., int]]


def is_plain(own: Sequence[Field[Any]]) -> bool:
    """Whether the fields a class adds are stored as they are given."""
    return all(item.init and item.default_factory is MISSING for item in own)


def lean_methods(name: str, own: Sequence[Field[Any]], known: dict[str, Any]) -> Methods:
    """`__init__`, `__eq__` and `__hash__` of a call spec.

    Args:
        name: name of the class.
        own: the fields it adds, in order.
        known: `_known_devices`, normal forms of devices; `_normal_form`, which finds others;
            `_state`, which keeps the facts that were stated.
    """
    writer = SourceWriter()
    writer.line(f'"""How values of {name} are made and compared, printed from its fields."""')
    _print_init(writer, own)
    with writer.function("__eq__", ["_self", "_other"], "object", "By class and fields."):
        with writer.block("if _other.__class__ is not _self.__class__"):
            writer.line("return NotImplemented")
        writer.line("return _self.table_key == _other.table_key")
    with writer.function("__hash__", ["_self"], "int", "By fields."):
        writer.line("return hash(_self.table_key)")
    defaults = {f"_default_{item.name}": item.default for item in own}
    unit = compile_source(f"{name} methods", writer.text(), {**known, **defaults})
    return unit["__init__"], unit["__eq__"], unit["__hash__"]


def _print_init(writer: SourceWriter, own: Sequence[Field[Any]]) -> None:
    listed = [_parameter(item) for item in own if not item.kw_only]
    listed += ["*", *(_parameter(item) for item in own if item.kw_only), "device=None"]
    compared = [identifier(item.name) for item in own if item.compare]
    with writer.function("__init__", ["_self", *listed, "**_facts"], "None", "Make the key."):
        with writer.block("if device is not None"):
            writer.line("device = _known_devices.get(device) or _normal_form(device)")
        writer.items("_key = (", ["_self.__class__", "device", *compared], ")")
        writer.line("_self.__dict__['table_key'] = _key")
        for item in own:
            if not item.compare:
                writer.line(f"_self.__dict__[{item.name!r}] = {item.name}")
        with writer.block("if _facts"):
            writer.line("_state(_self, _facts)")


def _parameter(item: Field[Any]) -> str:
    name = identifier(item.name)
    return name if item.default is MISSING else f"{name}=_default_{name}"
