"""Text of generated source: lines, blocks, comments that quote declarations.

Knows Python's layout and nothing of signatures. Text that comes from a spec enters a line only
through `comment`, which keeps it inside one comment, or as the `repr` of a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from keyword import iskeyword

from tileops._core.spec.model import Location

_INDENT = "    "
_WIDTH = 100


class SourceWriter:
    """Collects the lines of one source unit."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._declared = ""

    def line(self, text: str = "") -> None:
        """Add one line at the current depth."""
        self._lines.append(f"{_INDENT * self._depth}{text}" if text else "")

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add `header` and a colon; what is added inside stands one level deeper."""
        self.line(f"{header}:")
        declared = self._declared
        self._depth += 1
        yield
        self._depth -= 1
        if self._declared != declared:
            self._declared = ""

    @contextmanager
    def function(
        self, name: str, arguments: Iterable[str], result: str, doc: str
    ) -> Iterator[None]:
        """Add a function with its docstring, two blank lines before it."""
        self.line()
        self.line()
        listed = list(arguments)
        header = f"def {name}({', '.join(listed)}) -> {result}"
        if len(header) < _WIDTH:
            self.line(f"{header}:")
        else:
            self.items(f"def {name}(", listed, f") -> {result}:")
        self._declared = ""
        self._depth += 1
        self.line(f'"""{doc}"""')
        yield
        self._depth -= 1

    def items(self, head: str, items: Iterable[str], tail: str) -> None:
        """Add a bracketed list: on one line where it fits, else one item a line."""
        listed = list(items)
        short = f"{head}{', '.join(listed)}{tail}"
        if len(short) + len(_INDENT) * self._depth <= _WIDTH or not listed:
            self.line(short)
            return
        self.line(head)
        for item in listed:
            self.line(f"{_INDENT}{item},")
        self.line(tail)

    def declare(self, text: str, location: Location) -> None:
        """Add a comment that quotes a declaration and says where it stands.

        Statements that follow each other for one declaration share the comment.
        """
        comment = f"{location}  {text}"
        if comment != self._declared:
            self.comment(comment)
            self._declared = comment

    def comment(self, text: str) -> None:
        """Add a comment; characters that would end it or cannot be shown are escaped."""
        self.line(f"# {''.join(map(_visible, text))}")

    def mark(self) -> int:
        """A place to which `insert` can return."""
        return len(self._lines)

    def lines(self, mark: int) -> list[str]:
        """The lines added since `mark` was taken."""
        return self._lines[mark:]

    def insert(self, mark: int, lines: Iterable[str]) -> None:
        """Put lines where `mark` was taken."""
        self._lines[mark:mark] = lines

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines) + "\n"


def identifier(name: str) -> str:
    """`name` itself, once it is certain that it can be nothing but a name in Python source.

    Raises:
        ValueError: if it is no ASCII identifier, or a keyword.
    """
    if not (name.isascii() and name.isidentifier()) or iskeyword(name):
        raise ValueError(f"not a name: {name!r}")
    return name


def _visible(character: str) -> str:
    return character if character.isprintable() else f"\\u{ord(character):04x}"
