"""Embed sentences with the all-MiniLM-L6-v2 weights, every layer computed by TileOPs ops.

The first sentence is the query; the others are ranked by how similar they are to it. A table says
what each op did, by the clock, the rooflines and the profiles of `tileops bench`. The embeddings
are compared with a plain PyTorch computation of the same model; a difference above 1e-4 makes the
command fail.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tileops.cli.options import add_device, add_json
from tileops.cli.output import UsageFault, print_json, table
from tileops.cli.progress import waiting
from tileops.cli.specs import device_named

if TYPE_CHECKING:
    from tileops.demo import DemoReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "sentences", nargs="*", help="the query, then what is ranked; a built-in set when absent"
    )
    parser.add_argument("--file", type=Path, help="read the sentences from a text file, one a line")
    add_device(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the model and print its report; 1 when the embeddings are wrong."""
    with waiting("loading torch", silent=args.json):
        from tileops.bench.profiles import unknown_limits
        from tileops.demo import BUILT_IN_SENTENCES, read_sentences, run_demo

    if args.file is not None and args.sentences:
        raise UsageFault("give sentences as arguments or in a file, not both")
    sentences = read_sentences(args.file) if args.file is not None else args.sentences
    work = "embedding the sentences, twice to compare, and timing each op"
    with waiting(work, silent=args.json):
        device = device_named(args.device)
        report = run_demo(sentences or BUILT_IN_SENTENCES, str(device))
    if args.json:
        print_json(report.data())
    else:
        print(_text(report), flush=True)
        hint = unknown_limits(device)
        if hint:
            print(hint, file=sys.stderr)
    return 0 if report.passed else 1


def _text(report: DemoReport) -> str:
    """The report for people."""
    from tileops.demo import DIFFERENCE_LIMIT

    lines = [f"query: {report.query}"]
    lines += [f"  {ranked.similarity:+.3f}  {ranked.sentence}" for ranked in report.ranking]
    lines += [f"cut off at the model's longest input: {sentence}" for sentence in report.cut]
    lines += [
        "",
        f"{report.tokens} tokens on {report.device}, in float32",
        "",
        _op_table(report),
        "",
    ]
    verdict = "within" if report.passed else "ABOVE"
    lines.append(
        f"largest difference from plain PyTorch: {report.largest_difference:.2e}, "
        f"{verdict} the limit of {DIFFERENCE_LIMIT:.0e}"
    )
    return "\n".join(lines)


def _op_table(report: DemoReport) -> str:
    header = ("op", "calls", "served by", "kernel", "ms", "MFLOP", "MB", "share", "of limit")
    rows = [
        (
            use.op,
            str(use.calls),
            use.target,
            ", ".join(use.kernels),
            f"{use.seconds * 1e3:.2f}",
            f"{use.flops / 1e6:.2f}",
            f"{use.bytes / 1e6:.2f}",
            f"{use.seconds / report.seconds:.1%}",
            "" if use.efficiency is None else f"{use.efficiency:.0%}",
        )
        for use in report.ops
    ]
    total = (
        "all",
        str(sum(use.calls for use in report.ops)),
        "",
        "",
        f"{report.seconds * 1e3:.2f}",
        f"{sum(use.flops for use in report.ops) / 1e6:.2f}",
        f"{sum(use.bytes for use in report.ops) / 1e6:.2f}",
        "100.0%",
        "",
    )
    shown = len(header) if any(row[-1] for row in rows) else -1  # limits may be unknown
    lines = [row[:shown] for row in (*rows, total)]
    return table(header[:shown], lines, right=frozenset({1, 4, 5, 6, 7, 8}))
