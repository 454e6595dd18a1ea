"""Types as a stub writes them, with the imports that they need.

For parameters by their declared type, for everything else by what `inspect` finds. What has no
name that another module can import is `Any`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any

from tileops._core.lang import members
from tileops._core.lang.param_types import ParamType
from tileops._core.spec.model import OpSpec, Param, TensorInput

_SIMPLE: dict[type[members.Member], str] = {
    members.IntMember: "int",
    members.BoolMember: "bool",
    members.FloatMember: "float",
    members.NumberMember: "complex",
    members.StrMember: "str",
    members.NoneMember: "None",
    members.DTypeMember: "torch.dtype",
}
"""How members without a part of their own are written; a type checker takes less for more."""


class Names:
    """The names that the text of one stub uses.

    Args:
        module: the module that the stub is of; what it defines needs no import.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._imports: set[tuple[str, str, str]] = set()

    def lines(self) -> list[str]:
        """The imports, standard library first, then torch."""
        origins = {origin for origin, *_ in self._imports}
        blocks = (
            [self._line(*each) for each in self._ordered({"typing"})],
            ["import torch"] * (("torch", "", "") in self._imports)
            + [self._line(*each) for each in self._ordered({"torch"}) if each[1]],
            [self._line(*each) for each in self._ordered(origins - {"typing", "torch"})],
        )
        return [line for block in blocks if block for line in (*block, "")]

    def _ordered(self, origins: Iterable[str]) -> list[tuple[str, str, str]]:
        offered = {(origin, name) for origin, name, alias in self._imports if name == alias}
        return sorted(
            each
            for each in self._imports
            if each[0] in origins and (each[2] or each[:2] not in offered)
        )

    @staticmethod
    def _line(origin: str, name: str, alias: str) -> str:
        return f"from {origin} import {name}" + (f" as {alias}" if alias else "")

    def imported(self, origin: str, name: str, alias: str = "") -> str:
        """A name imported from a module."""
        self._imports.add((origin, name, alias))
        return alias or name

    def submodule(self, name: str) -> str:
        """A module imported under an alias that tells its place below ours."""
        origin, _, last = name.rpartition(".")
        place = name.removeprefix(f"{self.module}.").removeprefix("ops.")
        return self.imported(origin, last, f"_{place.replace('.', '_')}")

    def parameter(self, spec: OpSpec, name: str) -> str | None:
        """The type of a constructor's parameter that the spec declares; None for any other."""
        declared = spec.signature.params.get(name)
        if isinstance(declared, TensorInput):
            tensor = self.imported("torch", "Tensor")
            return f"{tensor} | None" if declared.optional is not False else tensor
        if not isinstance(declared, Param) or declared.type.node is None:
            return None
        return self.declared(spec, declared.type.node)

    def declared(self, spec: OpSpec, type_: ParamType) -> str:
        """A type that a spec declares."""
        return self._union(self._members(spec, type_))

    def _members(self, spec: OpSpec, type_: ParamType) -> Iterable[str]:
        """Each member; quoted literals are joined."""
        quoted = [m.literal for m in type_.members if isinstance(m, members.LiteralMember)]
        for member in type_.members:
            if isinstance(member, members.LiteralMember):
                literal = self.imported("typing", "Literal")
                yield f"{literal}[{', '.join(map(_quoted, quoted))}]"
            elif isinstance(member, members.SequenceMember):
                yield _sequence(member)
            elif isinstance(member, members.AdtMember):
                for constructor in spec.adts[member.name].constructors.values():
                    yield self._dotted(constructor.python)
            elif isinstance(member, members.ObjectMember):
                yield self._dotted(member.name)
            else:
                yield self._torch(_SIMPLE[type(member)])

    def _union(self, parts: Iterable[str]) -> str:
        return " | ".join(dict.fromkeys(parts))

    def _torch(self, text: str) -> str:
        if text.startswith("torch."):
            self._imports.add(("torch", "", ""))
        return text

    def _dotted(self, path: str) -> str:
        """The class of this name, imported from where it is defined."""
        found = members.ImportedClasses().object_class(path)
        return self.annotation(found) if found is not None else self.any()

    def any(self) -> str:
        """The type of what has none that can be written."""
        return self.imported("typing", "Any")

    def annotation(self, found: object) -> str:
        """A type as an object."""
        if found is None or found is type(None):
            return "None"
        origin, parts = typing.get_origin(found), typing.get_args(found)
        if origin in {types.UnionType, typing.Union}:
            return self._union(map(self.annotation, parts))
        if origin is tuple:
            return f"tuple[{', '.join(map(self.annotation, parts))}]"
        if origin is typing.Literal:
            return f"{self.imported('typing', 'Literal')}[{', '.join(map(_quoted, parts))}]"
        if origin is not None or not isinstance(found, type) or "." in found.__qualname__:
            return self.any()
        return self._class(found)

    def _class(self, found: type[Any]) -> str:
        name = found.__name__
        if found.__module__ in {"builtins", self.module}:
            return name
        if found.__module__ == "torch" and name != "Tensor":
            return self._torch(f"torch.{name}")
        return self.imported(found.__module__, name)


def _sequence(member: members.SequenceMember) -> str:
    items = ["int | None" if optional else "int" for optional in member.optional]
    if member.is_list:
        return f"list[{items[0]}]"
    return f"tuple[{', '.join(items)}{', ...' if member.is_open else ''}]"


def _quoted(literal: object) -> str:
    return f'"{literal}"' if isinstance(literal, str) else repr(literal)
