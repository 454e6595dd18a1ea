"""Frozen dataclasses whose methods are compiled when they are first called.

The standard library compiles six methods of each class as it is defined, a millisecond a class, of
which most are never called. The classes of the expression language, of specs and of plans are many
and come with every import of an op. They behave as frozen dataclasses do; the parameters that
`dataclasses` keeps of a class are the only thing that tells them apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

Method = Callable[..., Any]


def _text(name: str, arguments: Iterable[str], lines: Iterable[str]) -> str:
    return "\n    ".join([f"def {name}({', '.join(arguments)}):", *lines])


def _init(cls: type, fields: tuple[Field[Any], ...]) -> str:
    taken = [field for field in fields if field.init]
    positional = [_parameter(field) for field in taken if not field.kw_only]
    named = [_parameter(field) for field in taken if field.kw_only]
    lines = [f"_set(_self, {field.name!r}, {_value(field)})" for field in fields]
    lines += ["_self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    arguments = ["_self", *positional, *(["*", *named] if named else [])]
    return _text("__init__", arguments, lines or ["pass"])


def _parameter(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=_missing"


def _value(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        made = f"_make_{field.name}()"
        return f"{made} if {field.name} is _missing else {field.name}" if field.init else made
    return field.name if field.init else f"_default_{field.name}"


def _eq(_cls: type, fields: tuple[Field[Any], ...]) -> str:
    mine, others = (_compared(of, fields) for of in ("_self", "_other"))
    lines = ["if _other.__class__ is not _self.__class__:", "    return NotImplemented"]
    return _text("__eq__", ["_self", "_other"], [*lines, f"return {mine} == {others}"])


def _hash(_cls: type, fields: tuple[Field[Any], ...]) -> str:
    return _text("__hash__", ["_self"], [f"return hash({_compared('_self', fields)})"])


def _repr(_cls: type, fields: tuple[Field[Any], ...]) -> str:
    shown = ", ".join(f"{f.name}={{_self.{f.name}!r}}" for f in fields if f.repr)
    return _text("__repr__", ["_self"], [f'return f"{{_self.__class__.__qualname__}}({shown})"'])


def _compared(of: str, fields: tuple[Field[Any], ...]) -> str:
    return f"({''.join(f'{of}.{f.name}, ' for f in fields if f.compare)})"


_PRINTERS: Mapping[str, Callable[[type, tuple[Field[Any], ...]], str]] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
}


def _late(cls: Any, name: str) -> Method:
    """A method that puts the compiled one in its place and goes on as that."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = _compiled(cls, name)
        setattr(cls, name, compiled)
        return compiled(self, *args, **kwargs)

    return method


def _compiled(cls: Any, name: str) -> Method:
    fields = dataclasses.fields(cls)
    space: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    space |= {f"_default_{field.name}": field.default for field in fields}
    space |= {f"_make_{field.name}": field.default_factory for field in fields}
    text = _PRINTERS[name](cls, fields)
    exec(compile(text, f"<{name} of {cls.__qualname__}>", "exec"), space)
    method: Method = space[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _freeze(cls: Any) -> None:
    """Refuse to assign and to delete, as a frozen dataclass does."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = assign, delete


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Make a class whose body declares fields a frozen dataclass."""
        assert frozen

        def made(cls: type) -> type:
            written = vars(cls).copy()
            dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            for name in _PRINTERS:
                # A body that has `__eq__` alone leaves None as `__hash__`.
                if written.get(name) is None:
                    setattr(cls, name, _late(cls, name))
            _freeze(cls)
            return cls

        return made
