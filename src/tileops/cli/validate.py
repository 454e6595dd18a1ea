"""Check specs, and the code of implemented ones against them.

One finding a line: level, op, field, then the number of the check, what is wrong, and where. The
command fails when a finding is an error; advisories alone let it pass.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tileops
from tileops._core.lang.values import printable
from tileops.cli.options import add_json, at_least
from tileops.cli.output import UsageFault, painted, print_json
from tileops.cli.progress import waiting
from tileops.cli.specs import spec_named

if TYPE_CHECKING:
    from tileops._core.spec.model import Finding, Location


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("ops", nargs="*", metavar="OP", help="check these ops only")
    parser.add_argument(
        "--source",
        action="extend",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="check these spec files from outside the package",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="let the files name classes and functions of this package; may be repeated",
    )
    parser.add_argument(
        "--branch-limit",
        type=at_least(int, 1),
        metavar="N",
        help="advise when a spec has more branches than this (default 256)",
    )
    parser.add_argument(
        "--github", action="store_true", help="print findings as workflow annotations"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Validate and print the findings; 1 when one is an error."""
    from tileops import manifest
    from tileops._core.validate.validator import validate

    limit = args.branch_limit or manifest.branch_limit
    folders = [str(path) for path in args.source if path.is_dir()]
    if folders:
        raise UsageFault(f"--source takes spec files, not folders: {', '.join(folders)}")
    missing = [str(path) for path in args.source if not path.is_file()]
    if missing:
        raise UsageFault(f"no such file: {', '.join(missing)}")
    for package in args.allow:
        manifest.allow(package)
        if not _is_installed(package):
            warning = "Python finds no such package here, so what it has is not checked"
            print(f"--allow {package}: {warning}", file=sys.stderr)
    for name in args.ops if not args.source else ():
        if Path(name).suffix in (".yaml", ".yml") or Path(name).is_file():
            raise UsageFault(f"{name} is a file, not an op; try: --source {name}")
        spec_named(name)
    names = args.ops or None
    with (
        waiting("checking specs and their code", silent=args.json) as tell,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)  # what imports warn of is a finding
        reports = [
            validate(names, path, caller=__name__, branch_limit=limit, tell=tell)
            for path in args.source or [None]
        ]
    places = {found: report.places[found] for report in reports for found in report.findings}
    ok = all(report.ok for report in reports)
    if args.json:
        print_json({"ok": ok, "findings": [_data(*found) for found in places.items()]})
    else:
        render = _annotation if args.github else _line
        lines = [render(finding, place) for finding, place in places.items()]
        print("\n".join([*lines, _summary(places)]))
    return 0 if ok else 1


def _is_installed(package: str) -> bool:
    """Whether Python finds the outermost package, which is not loaded for that."""
    outermost = package.partition(".")[0]
    return outermost.isidentifier() and find_spec(outermost) is not None


def _line(finding: Finding, place: Location) -> str:
    level = painted(finding.level, "red" if finding.level == "error" else "yellow")
    is_told = finding.op == place.file  # a finding of a whole file names it, and the line
    where = "" if is_told or not place.line else f" ({printable(_path(place.file))}:{place.line})"
    return f"{level} {finding.subject}: {finding.message}{where}"


def _data(finding: Finding, place: Location) -> dict[str, Any]:
    """A finding and its place; a spec from running code has no lines."""
    return {**finding._asdict(), "file": _path(place.file), "line": place.line or None}


def _annotation(finding: Finding, place: Location) -> str:
    """One workflow command, at the line where the field stands."""
    kind = "error" if finding.level == "error" else "warning"
    where = f"file={_property(_path(place.file))},line={place.line}," if place.line else ""
    text = finding.message.replace("%", "%25")
    return f"::{kind} {where}title={_property(finding.subject)}::{text}"


def _property(text: str) -> str:
    """A text as the value of a property of a workflow command."""
    return text.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")


def _path(file: str) -> str:
    """A file as the working directory sees it; in-tree files lie in the package."""
    inside = Path(tileops.__file__).parent / file
    is_ours = not Path(file).is_absolute() and inside.is_file()
    return os.path.relpath(inside) if is_ours else file


def _summary(findings: Collection[Finding]) -> str:
    errors = sum(finding.level == "error" for finding in findings)
    advisories = len(findings) - errors
    ending = "y" if advisories == 1 else "ies"
    return f"{errors} error{'s' * (errors != 1)}, {advisories} advisor{ending}"
