"""Print the JSON Schema of spec files, for editors and for packs.

It knows the form of a spec, not its meaning: `tileops validate` checks what is written.
"""

from __future__ import annotations

import argparse

from tileops._core.spec.schema import json_schema
from tileops.cli.options import add_json
from tileops.cli.output import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    print_json(json_schema())
    return 0
