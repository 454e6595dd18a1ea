"""A cursor over the tokens of one text, shared by the parsers of expressions, kinds and types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tileops._core.lang import rejected
from tileops._core.lang.faults import LanguageFault
from tileops._core.lang.nodes import Span
from tileops._core.lang.tokens import Token, tokenize

MAX_NESTING = 30
"""Levels of brackets, `not`, `-` and `else` that may enclose one another."""


class Cursor:
    """A place among the tokens of a text.

    Args:
        text: what is parsed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._nesting = 0

    @property
    def token(self) -> Token:
        """The token at the cursor; of type `"end"` after the last."""
        return self._tokens[self._next]

    def peek(self, ahead: int) -> Token:
        """The token `ahead` places after the one at the cursor."""
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Pass the token at the cursor and return it."""
        token = self.token
        if token.type != "end":
            self._next += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether one of the operators or keywords `texts` is at the cursor."""
        return self.token.type in ("op", "keyword", "foreign") and self.token.text in texts

    def accept(self, text: str) -> bool:
        """Pass `text` if it is at the cursor; whether it was."""
        found = self.at(text)
        if found:
            self.advance()
        return found

    def expect(self, text: str) -> Token:
        """Pass `text`, which must be at the cursor."""
        if not self.at(text):
            raise self.unexpected(f"expected `{text}`")
        return self.advance()

    def expect_name(self, what: str) -> Token:
        """Pass a name, which must be at the cursor."""
        if self.token.type != "name":
            raise self.unexpected(f"expected {what}")
        return self.advance()

    def finish(self) -> None:
        """Require the end of the text."""
        if self.token.type != "end":
            raise self.unexpected("expected the end")

    def span(self, start: int) -> Span:
        """From `start` to the end of the last token passed."""
        return start, self._tokens[self._next - 1].stop

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One more level of nesting."""
        if self._nesting == MAX_NESTING:
            raise self.fault(f"nested more than {MAX_NESTING} levels deep")
        self._nesting += 1
        yield
        self._nesting -= 1

    def fault(self, message: str, offset: int | None = None) -> LanguageFault:
        """A fault at `offset`, or at the cursor."""
        return LanguageFault(message, self.text, self.token.start if offset is None else offset)

    def unexpected(self, expected: str) -> LanguageFault:
        """The fault of the token at the cursor, with its rewrite if its form is a rejected one."""
        token = self.token
        if token.type == "end":
            return self.fault(f"{expected}, but the text ends")
        if token.text in ("{", "}"):
            return self.fault(rejected.braces(self.text[token.start :]))
        if token.type == "foreign":
            return self.fault(rejected.operator(token.text))
        return self.fault(rejected.WORDS.get(token.text) or f"{expected}, found `{token.text}`")
