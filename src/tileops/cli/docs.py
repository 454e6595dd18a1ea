"""Write a page of Markdown for each family of ops, and an index: `docs/ops` of this project.

Each op has its formula and meaning, signature, parameters, cost, kernels and, from results of
`tileops bench`, measured times. Pages are made of specs, docstrings and results alone, so that
--check can tell whether a folder is up to date: exit code 1 when it is not.

  tileops docs docs/ops --results benchmarks/results
  tileops docs docs/ops --results benchmarks/results --check
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tileops.cli.output import UsageFault

NAME = "docs"
SUMMARY = "write a page for each family of ops"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the pages are")
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="what bench wrote, a file or a folder of such files; may be given several times",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")


def run(args: argparse.Namespace) -> int:
    """Write the pages, or compare them with those that are there."""
    from tileops.bench.results import read_results
    from tileops.cli.op_pages import pages

    made = pages([read_results(path) for given in args.results for path in _files(given)])
    present = {path.name: path for path in sorted(args.folder.glob("*.md"))}
    stale = [name for name in made if _text(present.get(name)) != made[name]]
    left = [name for name in present if name not in made]
    if args.check:
        print("\n".join(f"{args.folder / name} is not up to date" for name in [*stale, *left]))
        return 1 if stale or left else 0
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (args.folder / name).write_text(made[name], encoding="utf-8")
        for name in left:
            present[name].unlink()
    except OSError as error:
        raise UsageFault(f"{args.folder}: {error.strerror}") from error
    print(f"{args.folder}: {len(made)} pages, {len(stale)} of them new or changed")
    return 0


def _text(path: Path | None) -> str | None:
    return path.read_text(encoding="utf-8") if path else None


def _files(given: Path) -> Iterator[Path]:
    """A file as it is, of a folder those that hold results."""
    from tileops.bench.results import ResultsFault, read_results

    if not given.is_dir():
        yield given
        return
    for path in sorted(given.glob("*.json")):
        try:
            read_results(path)
        except ResultsFault:
            continue
        yield path
