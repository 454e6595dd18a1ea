"""Write a page of Markdown for each family of ops, and an index.

The ops are those of this library, or with --ops others, such as those of a pack. Each has its
formula and meaning, signature, parameters, cost, kernels and, from results of `tileops bench`,
measured times. Pages are made of specs, docstrings and results alone, so that --check can tell
whether a folder is up to date: exit code 1 when it is not. Pages that are no longer of anything are
removed; files that this command did not write are left alone.

  tileops docs docs/ops --ops acme_ops
  tileops docs docs/ops --results benchmarks/results
  tileops docs docs/ops --results benchmarks/results --check
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tileops._core.spec.model import OpSpec
from tileops.cli.options import add_json
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import waiting
from tileops.cli.specs import all_specs, package_of, unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the pages are")
    parser.add_argument(
        "--ops",
        nargs="+",
        metavar="NAME",
        default=["tileops"],
        help="ops, or packages whose ops are meant",
    )
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="what bench wrote, a file or a folder of such files; may be given several times",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the pages, or compare them with those that are there."""
    with waiting("reading specs, classes and results", silent=args.json) as tell:
        from tileops.bench.results import read_results
        from tileops.cli.op_pages import pages

        specs = _chosen(args.ops)
        results = [read_results(path) for given in args.results for path in _files(given)]
        made = pages(specs, results, tell)
    present = _present(args.folder, made)
    _keep_times(made, present)
    stale = [name for name in made if _text(present.get(name)) != made[name]]
    left = [name for name in present if name not in made]
    if not args.check:
        _write(args.folder, {name: made[name] for name in stale}, [present[name] for name in left])
    if args.json:
        print_json({"pages": sorted(made), "stale": stale, "left": left})
    elif args.check:
        hint = "leave out --check to write it"
        lines = [f"{args.folder / name} is not up to date: {hint}" for name in [*stale, *left]]
        print("\n".join(lines or [f"{args.folder}: {len(made)} pages, all up to date"]))
    else:
        print(f"{args.folder}: {len(made)} pages, {len(stale)} of them new or changed")
    return 1 if args.check and (stale or left) else 0


def _chosen(names: Iterable[str]) -> list[OpSpec]:
    """The specs of ops, and of those of packages.

    Raises:
        UsageFault: a name stands for no op.
    """
    specs = all_specs()
    known = {name for spec in specs for name in (spec.name, package_of(spec))}
    for name in names:
        if name not in known:
            raise unknown("op or package with ops", name, known, "`tileops list` lists all")
    return [spec for spec in specs if {spec.name, package_of(spec)}.intersection(names)]


def _present(folder: Path, made: Mapping[str, str]) -> dict[str, Path]:
    """The pages that are there.

    Raises:
        UsageFault: what would be overwritten is no page.
    """
    from tileops.cli.op_pages import MARK

    found = {path.name: path for path in sorted(folder.glob("*.md"))}
    pages = {name: path for name, path in found.items() if (_text(path) or "").startswith(MARK)}
    for name in made:
        if name in found and name not in pages:
            raise UsageFault(f"{found[name]} was not written by this command; name another folder")
    return pages


def _keep_times(made: Mapping[str, str], present: Mapping[str, Path]) -> None:
    """Refuse to take a page's measured times away.

    Raises:
        UsageFault: a page has some, and what was made in its place has none.
    """
    from tileops.cli.op_pages import is_measured

    losing = [path for name, path in present.items() if is_measured(_text(path) or "")]
    losing = [path for path in losing if not is_measured(made.get(path.name, ""))]
    if losing:
        others = f" and {len(losing) - 1} more" if losing[1:] else ""
        raise UsageFault(
            f"{losing[0]}{others} would lose measured times: give what they are from, such as "
            "--results benchmarks/results"
        )


def _write(folder: Path, texts: Mapping[str, str], left: Iterable[Path]) -> None:
    """Write pages, and remove those of nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        for path in left:
            path.unlink()
    except OSError as error:
        raise UsageFault(f"{folder}: {error.strerror}; name another folder") from error


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
