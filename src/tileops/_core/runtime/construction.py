"""What a checked construction leaves to the calls of its instance."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

from tileops._core.lang.values import frozen, read_field
from tileops._core.signature.plan import Value

Form = tuple[tuple[int, ...], str | None]
"""The shape and the dtype of a tensor."""


class Constructed(Mapping[str, Any]):
    """The solved indices and lets of an instance, read-only.

    Beside them it keeps what every call would otherwise work out again: `parameters`, the values
    of all ordinary parameters as expressions see them, `cases`, the discriminants that algebraic
    values give, `forms`, what was given as tensors, and `indices`, what every record holds. Lists
    become tuples, so that nobody who is handed a value changes what was checked.

    Args:
        solved: name to value, dtypes by name.
        parameters: name to converted value.
        cases: name of an algebraic parameter to its discriminant.
        forms: name of a construction-time tensor to its shape and dtype, None where absent.
    """

    __slots__ = ("_solved", "cases", "forms", "indices", "parameters")

    def __init__(
        self,
        solved: dict[str, Any],
        parameters: dict[str, Any],
        cases: dict[str, Value],
        forms: dict[str, Form | None] | None = None,
    ) -> None:
        self._solved = {name: frozen(value) for name, value in solved.items()}
        self.parameters = {name: frozen(value) for name, value in parameters.items()}
        self.cases = cases
        self.forms = forms or {}
        self.indices = {**self.parameters, **self._solved}

    def __getitem__(self, name: str) -> Any:
        return self._solved[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._solved)

    def __len__(self) -> int:
        return len(self._solved)

    def __repr__(self) -> str:
        return repr(self._solved)


def discriminant(value: object, finite_fields: Mapping[str, tuple[str, ...]]) -> Value:
    """The discriminant of an algebraic value: its constructor and its finite fields."""
    if value is None:
        return None
    constructor: str = value.kind  # type: ignore[attr-defined]
    fields = finite_fields[constructor]
    return constructor, tuple((name, read_field(value, name)) for name in fields)


def literal(value: Any) -> Any:
    """A finite parameter's value as expressions see it: an enum member stands for its own."""
    return value.value if isinstance(value, enum.Enum) else value
