"""How commands print: tables, JSON, colours, and the error for arguments that cannot be used."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TextIO

from tileops.errors import TileOpsError


class UsageFault(TileOpsError):
    """Arguments that parse but cannot be used; exit code 2."""


Style = Literal["bold", "red", "green", "yellow"]
_CODES: dict[Style, int] = {"bold": 1, "red": 31, "green": 32, "yellow": 33}


def painted(text: str, style: Style, stream: TextIO | None = None) -> str:
    """A text in a style where a terminal shows it; plain elsewhere, and under NO_COLOR.

    Args:
        text: the text.
        style: the style.
        stream: where it will be printed; standard output where absent.
    """
    is_shown = (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
    if not is_shown or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def print_json(data: Any) -> None:
    """Print plain data, keys in the order given."""
    print(json.dumps(data, indent=2))


def print_everywhere() -> None:
    """Have characters that standard output cannot encode escaped instead of refused."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> str:
    """Lay out rows below a header, columns two blanks apart.

    Args:
        header: a title per column.
        rows: a text per column.
        right: numbers of the columns that are set flush right.

    Returns:
        The lines, without blanks at their ends.
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([painted(head, "bold"), *body])
