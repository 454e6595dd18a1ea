"""Every command: its name, what it does in a line, and the module that has the rest.

A table and no imports, so that `tileops --help` and completion of names load nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """A command: its name, what it does, its arguments in short, and its module in this package."""

    name: str
    summary: str
    takes: str = ""
    module: str = ""

    @property
    def module_name(self) -> str:
        """The full name of its module."""
        return f"tileops.cli.{self.module or self.name}"


GROUPS: Mapping[str, tuple[Command, ...]] = {
    "find out": (
        Command("list", "list the ops", module="list_ops"),
        Command("show", "show an op's signature, parameters and kernels", "OP"),
        Command("explain", "say which kernel would serve a call, and why no other", "OP"),
        Command("doctor", "say what this installation has and what failed to load"),
    ),
    "check": (
        Command("validate", "check specs, and code against them", "[OP ...]"),
        Command("run", "run an op's workload rows, judged by its reference", "OP"),
        Command("fuzz", "make calls drawn from a signature until one fails", "OP"),
    ),
    "measure": (
        Command("demo", "embed sentences with a real model, checked and measured"),
        Command("bench", "time workload rows that are right, beside other libraries", "[OP ...]"),
        Command("report", "write results of bench as a page", "[FILE ...]"),
    ),
    "extend": (
        Command("new", "write a package that extends TileOPs", "KIND NAME"),
        Command("schema", "print the JSON Schema of spec files"),
        Command("stubs", "write type stubs of op classes", "[PACKAGE]"),
        Command("docs", "write a page for each family of ops", "FOLDER"),
        Command("completion", "print the completion of a shell: bash, zsh or fish", "SHELL"),
    ),
}
"""The commands by what they are for, in the order in which help lists them."""

COMMANDS: Mapping[str, Command] = {
    command.name: command for group in GROUPS.values() for command in group
}
