"""Check specs, and the code of implemented ones against them.

One finding a line: level, op, field, then the number of the check and what is wrong. The command
fails when a finding is an error; advisories alone let it pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tileops._core.spec import registry
from tileops.cli.output import UsageFault, add_json_flag, print_json
from tileops.cli.specs import spec_named

if TYPE_CHECKING:
    from tileops._core.spec.model import Finding

NAME = "validate"
SUMMARY = "check specs, and code against them"


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
        type=int,
        metavar="N",
        help="advise when a spec has more branches than this (default 256)",
    )
    parser.add_argument(
        "--github", action="store_true", help="print findings as workflow annotations"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Validate and print the findings; 1 when one is an error."""
    from tileops import manifest

    if args.branch_limit is not None:
        if args.branch_limit < 1:
            raise UsageFault(f"--branch-limit: expected at least 1, got {args.branch_limit}")
        manifest.branch_limit = args.branch_limit
    missing = [str(path) for path in args.source if not path.is_file()]
    if missing:
        raise UsageFault(f"no such file: {', '.join(missing)}")
    for package in args.allow:
        manifest.allow(package)
    for name in args.ops if not args.source else ():
        spec_named(name)
    names = args.ops or None
    reports = [manifest.validate(names, source=path) for path in args.source] or [
        manifest.validate(names)
    ]
    findings = [finding for report in reports for finding in report.findings]
    ok = all(report.ok for report in reports)
    if args.json:
        print_json({"ok": ok, "findings": [finding._asdict() for finding in findings]})
    else:
        render = _annotation if args.github else _line
        print("\n".join([*map(render, findings), _summary(findings)]))
    return 0 if ok else 1


def _line(finding: Finding) -> str:
    return f"{finding.level} {finding.op} {finding.field}: {finding.message}"


def _annotation(finding: Finding) -> str:
    """One workflow command; the place is that of the nearest located field."""
    kind = "error" if finding.level == "error" else "warning"
    place = ""
    spec = registry.lookup(finding.op)
    if spec is not None:
        field = finding.field
        while field and field not in spec.locations:
            field = field.rpartition(".")[0]
        location = spec.locations.get(field, spec.location)
        place = f"file={location.file},line={location.line},"
    text = finding.message.replace("%", "%25").replace("\n", "%0A")
    return f"::{kind} {place}title={finding.op} {finding.field}::{text}"


def _summary(findings: Sequence[Finding]) -> str:
    errors = sum(finding.level == "error" for finding in findings)
    advisories = len(findings) - errors
    return f"{errors} errors, {advisories} advisories"
