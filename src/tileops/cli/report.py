"""Write results of `tileops bench` as one page of HTML that needs no network.

The page has a summary per family, the ratio to the best other library per row, a roofline for each
device, how near their limit rows come, and every row, to sort and to filter. --against sets rows
beside a record of published times of the same op, size and dtype; a YAML file maps its names.

Without RESULTS the page is of what the checkout keeps in benchmarks/results/, and is written here.

  tileops report norm.json -o norm.html
  tileops report --against peer-times.csv -o beside.html
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

from tileops.cli.options import add_json
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import Tell, counted, waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "results",
        type=Path,
        nargs="*",
        metavar="RESULTS.json",
        help="what bench wrote; by default the results that the checkout keeps",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="the page; by default the name of the first results with .html, or tileops.html here",
    )
    parser.add_argument(
        "--against", type=Path, metavar="TIMES.csv", help="a record of published times"
    )
    parser.add_argument(
        "--mapping", type=Path, metavar="FILE.yaml", help="how its ops and sizes map to ours"
    )
    parser.add_argument("--title", default="TileOPs", help="what the page is about")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page, and say where it is."""
    if args.mapping and not args.against:
        raise UsageFault("--mapping maps the rows of --against: give that too")
    with waiting("reading the results", silent=args.json) as tell:
        answer = _write(args, tell)
    if args.json:
        print_json(answer)
    else:
        beside = f", {answer['beside']} beside {args.against}" if args.against else ""
        print(f"{answer['page']}: {answer['rows']} rows{beside}")
    return 0


def _write(args: argparse.Namespace, tell: Tell) -> dict[str, Any]:
    """Write the page; where it is, and how many rows it has."""
    from tileops.bench.peers import peer_matches
    from tileops.bench.report import html_page
    from tileops.bench.results import merged, read_results

    files = args.results or _kept()
    results = merged([read_results(file) for file in counted(files, tell)])
    peers = peer_matches(results.rows, args.against, args.mapping) if args.against else []
    path = args.out or (files[0].with_suffix(".html") if args.results else Path("tileops.html"))
    if path.resolve() in {file.resolve() for file in files}:
        raise UsageFault(f"{path} holds the results: -o FILE writes elsewhere")
    try:
        page = html_page(results, peers, args.title)
        path.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise UsageFault(f"{path}: {error.strerror}; -o FILE writes elsewhere") from error
    return {"page": str(path), "rows": len(results.rows), "beside": len(peers)}


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
        hint = "`tileops bench --json FILE.json` makes some"
        raise UsageFault(f"no results are given, and {folder} has none; {hint}")
    return found
