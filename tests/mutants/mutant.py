"""What a row of the tables says."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault: a module of `tileops._core`, a line of it, its replacement, the tests to run."""

    line: str
    becomes: str
    tests: str
    nth: int | None = None
    module: str = ""
