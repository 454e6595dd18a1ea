"""Make calls of an op, drawn from its signature alone, until one fails or the time is over.

Valid calls have to give what the op's reference gives. Spoilt ones, with a foreign dtype, a missing
tensor or an extent that does not fit, have to be refused by name. A call that fails is shrunk to
the least one that fails too, and printed as a program.

  tileops fuzz AddFwdOp --seconds 30
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tileops.cli.output import UsageFault
from tileops.cli.specs import class_of, spec_named

if TYPE_CHECKING:
    from tileops.testing.fuzzing import Outcome

NAME = "fuzz"
SUMMARY = "make calls drawn from a signature until one fails"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("op", metavar="OP", help="the name of an op")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="N", help="how long to go on; 10 by default"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where to begin")


def run(args: argparse.Namespace) -> int:
    """Print what was tried, and the least call that fails; 1 when there is one."""
    spec = spec_named(args.op)
    class_of(spec)
    try:
        from tileops.testing.fuzzing import fuzz
    except ModuleNotFoundError as error:
        raise UsageFault(f"fuzz needs {error.name}: install 'tileops[fuzz]'") from error
    outcome = fuzz(spec.name, args.seconds, args.seed)
    print(_counts(outcome))
    if outcome.error is None:
        return 0
    print(f"\n{type(outcome.error).__name__}: {outcome.error}")
    if outcome.trial is not None:
        from tileops.testing.reproducing import program

        print(f"\n# The least call that fails so:\n\n{program(outcome.trial)}")
    return 1


def _counts(outcome: Outcome) -> str:
    made = ", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items()))
    return f"{outcome.counts.total()} calls: {made or 'none could be drawn'}"
