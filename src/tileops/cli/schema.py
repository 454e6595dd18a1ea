"""Print the JSON Schema of spec files, for editors and for packs.

It knows the form of a spec, not its meaning: `tileops validate` checks what is written.
"""

from __future__ import annotations

import argparse
from importlib import resources

NAME = "schema"
SUMMARY = "print the JSON Schema of spec files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="accepted and without effect")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    print(resources.files("tileops._core.spec").joinpath("schema.json").read_text("utf-8"), end="")
    return 0
