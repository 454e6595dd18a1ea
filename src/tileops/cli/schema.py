"""Print the JSON Schema of spec files, for editors and for packs.

It knows the form of a spec, not its meaning: `tileops validate` checks what is written.
"""

from __future__ import annotations

import argparse

from tileops._core.spec.schema import json_schema
from tileops.cli.output import print_json

NAME = "schema"
SUMMARY = "print the JSON Schema of spec files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="accepted and without effect")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    print_json(json_schema())
    return 0
