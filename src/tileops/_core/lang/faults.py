"""Faults of the expression language, with the place in the text they belong to.

Every fault carries the number of the validator's check that it belongs to; the signature code
turns it into a finding, the runtime into an error of the declaration.
"""

from __future__ import annotations

import unicodedata

from tileops._core.lang.nodes import Span

_EXCERPT = 72
"""Characters of the text shown around the place of a fault."""

_MESSAGE = 400
"""Characters of a message, which may quote a part of the text."""


class LanguageFault(ValueError):
    """Text that is no expression, shape, kind or type of the language.

    Args:
        message: what is wrong, and the rewrite where there is one.
        text: the whole text.
        offset: index of the character at fault; the length of the text at its end.
    """

    check = 13

    def __init__(self, message: str, text: str, offset: int) -> None:
        self.message = _cut(message)
        self.text = text
        self.offset = offset
        super().__init__(message, text, offset)

    def __str__(self) -> str:
        return f"{self.message}\n{caret(self.text, self.offset)}"


class KindFault(ValueError):
    """A well-formed expression that does not mean anything where it stands.

    Args:
        check: number of the validator's check.
        message: what is wrong.
        span: the part of the text at fault.
    """

    def __init__(self, check: int, message: str, span: Span = (0, 0)) -> None:
        self.check = check
        self.message = _cut(message)
        self.span = span
        super().__init__(check, message, span)

    def __str__(self) -> str:
        return self.message


class EvaluationFault(ValueError):
    """An expression that failed while it ran.

    Args:
        message: what failed; for a primitive its name, its argument values and its own reason.
        span: the part of the text at fault.
    """

    def __init__(self, message: str, span: Span = (0, 0)) -> None:
        self.message = _cut(message)
        self.span = span
        super().__init__(message, span)

    def __str__(self) -> str:
        return self.message


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"


def excerpt(text: str, offset: int) -> str:
    """A text, or the part of a long one around a place."""
    if len(text) <= 2 * _EXCERPT:
        return text
    start, stop = max(0, offset - _EXCERPT), offset + _EXCERPT
    return f"{'…' if start else ''}{text[start:stop]}{'…' if stop < len(text) else ''}"


def caret(text: str, offset: int) -> str:
    """Two lines: the text around `offset`, and a caret below the character at `offset`.

    Characters that cannot be shown are escaped, so the lines can always be printed.
    """
    start = max(0, offset - _EXCERPT // 2)
    stop = start + _EXCERPT
    before = ("…" if start else "") + _shown(text[start:offset])
    after = _shown(text[offset:stop]) + ("…" if stop < len(text) else "")
    return f"  {before}{after}\n  {' ' * _columns(before)}^"


def _shown(text: str) -> str:
    return "".join(_shown_character(character) for character in text)


def _shown_character(character: str) -> str:
    if character in "\n\r\t":
        return " "
    if character.isprintable():
        return character
    return f"\\u{{{ord(character):x}}}"


def _columns(text: str) -> int:
    """Width of a text on a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.combining(character) != 0 for character in text)
    return len(text) + wide - marks
