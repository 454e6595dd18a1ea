"""Declared texts to trees: the one place where the spec reader meets the language's parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tileops._core.lang.faults import LanguageFault, excerpt
from tileops._core.lang.nodes import Expr, Shape
from tileops._core.lang.parser import parse_expression, parse_shape
from tileops._core.lang.tokens import MAX_DIGITS
from tileops._core.spec.entries import Entry
from tileops._core.spec.model import Declaration

N = TypeVar("N")


def declare(
    entry: Entry, parse: Callable[[str], N], form: int, parse_check: int = 13
) -> Declaration[N]:
    """Read a declared text.

    Args:
        entry: the field.
        parse: text to tree, raising `LanguageFault`.
        form: the check that a value of another type breaks.
        parse_check: the check that a text which does not parse breaks.

    Returns:
        The declaration; its `node` is None when there is a fault.
    """
    text = entry.text(form)
    node = None if text is None else parsed(entry, text, parse, parse_check)
    return Declaration(entry.path, text or "", node, entry.location)


def parsed(entry: Entry, text: str, parse: Callable[[str], N], check: int) -> N | None:
    """The tree of a text, or None with a finding that names the place of the fault."""
    try:
        return parse(text)
    except LanguageFault as fault:
        shown = repr(excerpt(text, fault.offset))
        entry.error(check, f"{fault.message}, at character {fault.offset + 1} of {shown}")
        return None


def expression(entry: Entry, form: int = 13) -> Declaration[Expr]:
    """A declared expression."""
    return declare(entry, parse_expression, form)


def expression_or_integer(entry: Entry, form: int = 13) -> Declaration[Expr]:
    """A declared expression, where a bare integer stands for its literal."""
    value = entry.value
    if isinstance(value, int) and not isinstance(value, bool):
        text = _digits(entry, value)
        node = parsed(entry, text, parse_expression, 13) if text else None
        return Declaration(entry.path, text, node, entry.location)
    return expression(entry, form)


def _digits(entry: Entry, value: int) -> str:
    """An integer as text; empty, with a finding, where Python may refuse to write it out."""
    if value.bit_length() > 4 * MAX_DIGITS:
        entry.error(13, f"a number of more than {MAX_DIGITS} digits")
        return ""
    return str(value)


def shape(entry: Entry, form: int) -> Declaration[Shape]:
    """A declared shape."""
    if not isinstance(entry.value, list):
        return declare(entry, parse_shape, form)
    entry.error(form, f"expected text, got a list: a shape is quoted, {_quoted(entry)}")
    return Declaration(entry.path, "", None, entry.location)


def _quoted(entry: Entry) -> str:
    """A shape that YAML took for a list, as it has to be written; an example if it is none."""
    try:
        text = f"[{', '.join(str(item.value) for item in entry.value)}]"
        parse_shape(text)
    except ValueError:
        text = ""
    return f'{entry.name}: "{text}"' if 0 < len(text) <= 72 else f'such as {entry.name}: "[M, N]"'


def missing(owner: Entry, key: str, check: int) -> Declaration[Any]:
    """Stands for a required text that is absent: a fault, unless its owner is one already."""
    path = owner.join(key)
    if isinstance(owner.value, dict):
        owner.reading.error(check, path, "required field is missing")
    return Declaration(path, "", None, owner.location)
