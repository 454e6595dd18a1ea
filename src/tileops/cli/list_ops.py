"""List the ops with their family, status and the function each mirrors.

Words keep those ops in whose name, family, mirrored function or description each word stands;
the initials of a name are among them, hyphens are not looked at.

  tileops list rms
  tileops list rotary positions
  tileops list gqa
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tileops._core.spec.model import OpSpec
from tileops._core.spec.names import words_of
from tileops.cli.options import add_family, add_json
from tileops.cli.output import print_json, table
from tileops.cli.specs import all_specs, package_of, prose_of, unknown, unloaded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only ops of which all these words are said"
    )
    add_family(parser)
    parser.add_argument(
        "--status", choices=("implemented", "spec-only"), help="only ops of this status"
    )
    parser.add_argument(
        "--gradients", action="store_true", help="only ops whose spec names the op of its gradients"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per op, by name."""
    specs = all_specs()
    families = sorted({spec.family for spec in specs if spec.family})
    if args.family is not None and args.family not in families:
        raise unknown("family", args.family, families)
    rows = [
        {
            "op": spec.name,
            "family": spec.family,
            "status": spec.status,
            "package": package_of(spec),
            "mirrors": spec.ref_api,
            "backward": spec.backward.op if spec.backward else None,
            "origin": spec.origin,
        }
        for spec in specs
        if args.family in (None, spec.family) and args.status in (None, spec.status)
        if (spec.backward or not args.gradients) and _speaks_of(spec, args.words)
    ]
    for source in unloaded():
        print(source, file=sys.stderr)
    if args.json:
        print_json(rows)
        return 0
    if args.words and not rows:
        advice = "give fewer words" if len(args.words) > 1 else "without a word all ops are listed"
        print(f"no op speaks of {' and '.join(args.words)}: {advice}", file=sys.stderr)
        return 1
    columns = ("op", "family", "status", "package", "mirrors")
    print(
        table([c.upper() for c in columns], [[str(row[c] or "") for c in columns] for row in rows])
    )
    return 0


def _speaks_of(spec: OpSpec, words: Sequence[str]) -> bool:
    """Whether each word, in any case, stands in what is said of an op."""
    if not words:
        return True
    named = words_of(spec.name)
    initials = "".join(word[0] for word in named)
    said = _plain(
        " ".join(
            [*named, initials, spec.family or "", spec.ref_api or "", spec.name, prose_of(spec)]
        )
    )
    return all(_plain(word) in said for word in words)


def _plain(text: str) -> str:
    """A text in lower case without hyphens and underscores, as both stand for one word or two."""
    return text.lower().replace("-", "").replace("_", "")
