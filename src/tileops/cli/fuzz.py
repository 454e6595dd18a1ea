"""Make calls of an op, drawn from its signature alone, until one fails or the time is over.

Valid calls have to give what the op's reference gives. Spoilt ones, with a foreign dtype, a missing
tensor or an extent that does not fit, have to be refused by name. A call that fails is shrunk to
the least one that fails too, and printed as a program.

  tileops fuzz AddFwdOp --seconds 30
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileops.cli.options import SOME, add_json, add_op, at_least
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import waiting
from tileops.cli.specs import class_of, spec_named
from tileops.errors import installing

if TYPE_CHECKING:
    from tileops.testing.fuzzing import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_op(parser)
    parser.add_argument(
        "--seconds",
        type=at_least(float, SOME),
        default=10.0,
        metavar="N",
        help="how long to go on; 10 by default",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where to begin")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was tried, and the least call that fails; 1 when there is one.

    Raises:
        KeyboardInterrupt: the user ended it; what it found until then is printed.
    """
    spec = spec_named(args.op)
    class_of(spec)
    try:
        from tileops.testing.fuzzing import fuzz
    except ModuleNotFoundError as error:
        raise UsageFault(f"fuzz needs {error.name}; {installing('fuzz')} brings it") from error
    with waiting(f"making calls for {args.seconds:g} s", silent=args.json) as tell:
        outcome = fuzz(spec.name, args.seconds, args.seed, tell)
    data = _data(outcome)
    if args.json:
        print_json(data)
    else:
        print("\n\n".join(_sections(data)))
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return 0 if outcome.error is None else 1


def _data(outcome: Outcome) -> dict[str, Any]:
    """What was tried, and what failed, as plain data."""
    from tileops.testing.reproducing import program

    error, trial = outcome.error, outcome.trial
    return {
        "calls": dict(sorted(outcome.counts.items())),
        "interrupted": outcome.is_interrupted,
        "error": None if error is None else f"{type(error).__name__}: {error}",
        "program": None if error is None or trial is None else program(trial),
    }


def _sections(data: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    made = ", ".join(f"{count} {what}" for what, count in data["calls"].items())
    yield f"{sum(data['calls'].values())} calls: {made or 'none could be drawn'}"
    if data["error"] is not None:
        yield data["error"]
    if data["program"] is not None:
        which = "A" if data["interrupted"] else "The least"
        yield f"# {which} call that fails so:\n\n{data['program']}"
