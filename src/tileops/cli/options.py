"""The options that several commands take: the same name, the same meaning, the same words."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import suppress

Parser = argparse.ArgumentParser | argparse._ArgumentGroup

SOME = 1e-3
"""The fewest seconds in which something can be done."""


def at_least(
    kind: type[int] | type[float], least: float, below: float = math.inf
) -> Callable[[str], float]:
    """The `type` of an argument that is a finite number, neither too small nor too large a one.

    Args:
        kind: `int` or `float`.
        least: the least that is taken.
        below: what is more than all that is taken.
    """
    what = "a whole number" if kind is int else "a number"

    def read(text: str) -> float:
        with suppress(ValueError):
            value = kind(text)
            if least <= value < below:
                return value
        shown = text or repr(text)
        most = f" and below {below:g}" if below < math.inf else ""
        wanted = f"{what} of at least {least:g}{most}"
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {shown}")

    return read


def names(text: str) -> list[str]:
    """The `type` of an argument that is names between commas; each counts once."""
    found = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(found):
        shown = text or repr(text)
        raise argparse.ArgumentTypeError(f"expected names between commas, got {shown}")
    return found


def add_json(parser: Parser) -> None:
    """Let the command print data instead of text."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def add_op(parser: Parser) -> None:
    """Take the name of one op."""
    parser.add_argument("op", metavar="OP", help="the name of an op, as `tileops list` prints it")


def add_family(parser: Parser) -> None:
    """Choose ops by family."""
    parser.add_argument("--family", metavar="NAME", help="only ops of this family")


def add_rows(parser: Parser) -> None:
    """Choose workload rows."""
    parser.add_argument(
        "--row",
        action="append",
        metavar="LABEL",
        dest="rows",
        help="only the row of this label, or this case of it; may be given several times",
    )


def add_call(parser: Parser) -> None:
    """Describe a call by shapes, dtypes and parameters."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=AxB",
        help="shape of an input, as 8x4096; nothing after = for no axes; one option per tensor",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        default=[],
        metavar="DTYPE",
        help="dtype of all that admit it; NAME=DTYPE for one index such as T, or one input",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a constructor argument, its value written as in a spec file",
    )


def add_dtype(parser: Parser) -> None:
    """Choose cases by dtype."""
    parser.add_argument("--dtype", help="only cases in which a tensor has this dtype")


def add_device(parser: Parser, what: str = "where to run") -> None:
    """Choose the device."""
    parser.add_argument("--device", default="cpu", help=f"{what}: cpu (default) or cuda")


def add_target(parser: Parser) -> None:
    """Choose the target."""
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the target that serves: one of `tileops doctor`, or builtin; by default the device's",
    )
