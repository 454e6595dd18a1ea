"""Write results of `tileops bench` as one page of HTML that needs no network.

The page has a summary per family, the ratio to the best other library per row, a roofline for each
device, how near their limit rows come, and every row, to sort and to filter. --against sets rows
beside a record of published times of the same op, size and dtype; a YAML file maps its names.

Without RESULTS the page is of what the checkout keeps in benchmarks/results/.

  tileops report norm.json -o norm.html
  tileops report --against peer-times.csv -o beside.html
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from tileops.cli.output import UsageFault

NAME = "report"
SUMMARY = "write results of bench as a page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "results", type=Path, nargs="*", metavar="RESULTS.json", help="what bench wrote"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="the page; by default the name of the first results with .html",
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
    from tileops.bench.results import merged, read_results

    if args.mapping and not args.against:
        raise UsageFault("--mapping maps the rows of --against, and there are none")
    files = args.results or _kept()
    results = merged([read_results(file) for file in files])
    peers = peer_matches(results.rows, args.against, args.mapping) if args.against else []
    path = args.out or files[0].with_suffix(".html")
    try:
        path.write_text(html_page(results, peers, args.title), encoding="utf-8")
    except OSError as error:
        raise UsageFault(f"{path}: {error.strerror}") from error
    beside = f", {len(peers)} beside {args.against}" if args.against else ""
    print(f"{path}: {len(results.rows)} rows{beside}")
    return 0


def _kept() -> list[Path]:
    """The results that a checkout keeps, at least one.

    Raises:
        UsageFault: there are none.
    """
    from tileops.bench.baselines import default_folder
    from tileops.bench.results import ResultsFault, read_results

    folder = default_folder().parent / "results"
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(ResultsFault):
            read_results(file)
            found.append(file)
    if not found:
        raise UsageFault(f"no results are given, and {folder} has none")
    return found
