"""How commands print: tables, JSON, and the error for arguments that cannot be used."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tileops.errors import TileOpsError


class UsageFault(TileOpsError):
    """Arguments that parse but cannot be used; exit code 2."""


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Let the command print data instead of text."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


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
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
