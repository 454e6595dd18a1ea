"""Write results of `tileops bench` as one page of HTML that needs no network.

The page has a summary per family, the ratio to the best other library per row, a roofline for each
device, how near their limit rows come, and every row, to sort and to filter. --against sets rows
beside a record of published times of the same op, size and dtype; a YAML file maps its names.

  tileops report norm.json -o norm.html
  tileops report h200.json --against peer-times.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tileops.cli.output import UsageFault

NAME = "report"
SUMMARY = "write results of bench as a page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("results", type=Path, metavar="RESULTS.json", help="what bench wrote")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="the page; by default the results' name with .html",
    )
    parser.add_argument(
        "--against", type=Path, metavar="TIMES.csv", help="a record of published times"
    )
    parser.add_argument(
        "--mapping", type=Path, metavar="FILE.yaml", help="how its ops and sizes map to ours"
    )
    parser.add_argument("--title", default="TileOPs", help="what the page is about")


def run(args: argparse.Namespace) -> int:
    """Write the page, and say where it is."""
    from tileops.bench.peers import peer_matches
    from tileops.bench.report import html_page
    from tileops.bench.results import read_results

    if args.mapping and not args.against:
        raise UsageFault("--mapping maps the rows of --against, and there are none")
    results = read_results(args.results)
    peers = peer_matches(results.rows, args.against, args.mapping) if args.against else []
    path = args.out or args.results.with_suffix(".html")
    try:
        path.write_text(html_page(results, peers, args.title), encoding="utf-8")
    except OSError as error:
        raise UsageFault(f"{path}: {error.strerror}") from error
    beside = f", {len(peers)} beside {args.against}" if args.against else ""
    print(f"{path}: {len(results.rows)} rows{beside}")
    return 0
