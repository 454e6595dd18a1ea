"""Splitting text into tokens.

Operators and quotes of Python that the language leaves out become tokens too, so that the parser
can name the rewrite; any other character is a fault at its place.
"""

from __future__ import annotations

import re
from typing import Literal

from tileops._core.lang.declared import dataclass
from tileops._core.lang.faults import LanguageFault

MAX_TEXT = 10_000
"""Characters of one declaration."""

MAX_DIGITS = 100
"""Digits of one number."""

KEYWORDS = frozenset({"and", "or", "not", "if", "else", "for", "in", "True", "False", "None"})

TokenType = Literal["name", "keyword", "int", "float", "string", "op", "foreign", "end"]

_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r\n]+)
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<int>[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<string>'[^'\n]*'|"[^"\n]*")
  | (?P<foreign>\*\*|<<|>>|:=|->|[/](?![/])|[@&|^~!](?!=)|=(?!=)|[{}])
  | (?P<op>==|!=|<=|>=|//|[-+*%<>()\[\],.:])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """One token with its half-open range in the text."""

    type: TokenType
    text: str
    start: int
    stop: int


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, closed by one of type `"end"`.

    Raises:
        LanguageFault: the text is too long or holds something that is no token.
    """
    if len(text) > MAX_TEXT:
        message = f"longer than {MAX_TEXT} characters ({len(text)})"
        raise LanguageFault(message, text, MAX_TEXT)
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _no_token(text, place)
        place = match.end()
        if match.lastgroup != "blank":
            tokens.append(_token(text, match))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _token(text: str, match: re.Match[str]) -> Token:
    type_: TokenType = match.lastgroup  # type: ignore[assignment]
    word, start, stop = match.group(), match.start(), match.end()
    following = text[stop : stop + 1]
    if type_ in ("int", "float"):
        if following.isalnum() or following in ("_", "."):
            raise LanguageFault("malformed number", text, stop)
        if len(word) > MAX_DIGITS:
            raise LanguageFault(f"a number of more than {MAX_DIGITS} digits", text, start)
    elif type_ == "string" and "\\" in word:
        place = start + word.index("\\")
        raise LanguageFault("a string has no escapes", text, place)
    elif type_ == "name":
        if following and following in "'\"":
            raise LanguageFault(
                f"a string takes no prefix such as {word}; f-strings are not in the language",
                text,
                start,
            )
        if word in KEYWORDS:
            type_ = "keyword"
    return Token(type_, word, start, stop)


def _no_token(text: str, place: int) -> LanguageFault:
    character = text[place]
    if character in "'\"":
        return LanguageFault("a string without its closing quote", text, place)
    return LanguageFault(f"{character!a} is not in the language", text, place)
