"""The parsers: one that lists the commands, and one for each, filled when it is asked for.

Options are never abbreviated, so that a new one changes the meaning of no script. What a command
does not know is refused in its own name, with the nearest option or the command that has it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from tileops.cli.commands import COMMANDS, GROUPS, Command
from tileops.cli.nearest import further, nearest
from tileops.cli.output import painted


class CommandParser(argparse.ArgumentParser):
    """The parser of one command, without arguments until something is parsed.

    Args:
        command: the command.
        **settings: those of `argparse`.
    """

    def __init__(self, *, command: Command, **settings: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings
        )
        self._command: Command | None = command

    def load(self) -> None:
        """Take arguments and description from the command's module."""
        if self._command is None:
            return
        module = import_module(self._command.module_name)
        self._command = None
        self.description = module.__doc__
        module.add_arguments(self)
        self.set_defaults(run=module.run)

    def actions(self) -> list[argparse.Action]:
        """What the command takes."""
        self.load()
        return list(self._actions)

    def options(self) -> list[str]:
        """The names of its options."""
        return [name for action in self.actions() for name in action.option_strings]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; what is left over is an error of this command, not of the whole."""
        self.load()
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._advice(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {painted('error:', 'red', sys.stderr)} {message}\n")

    def _advice(self, rest: Sequence[str]) -> str:
        """The option that was perhaps meant, of this command or of another."""
        for word in rest:
            name = word.partition("=")[0]
            if not name.startswith("--"):
                continue
            others = [f"`tileops {each}`" for each in COMMANDS if name in parser_of(each).options()]
            if others:
                return f"; {' and '.join(others)} {'has' if len(others) == 1 else 'have'} {name}"
            if meant := nearest(name, self.options(), 1):
                return meant
        return f"; see `{self.prog} --help`"


class MainParser(argparse.ArgumentParser):
    """The parser of the whole command line; its help is a map of the commands."""

    def format_help(self) -> str:
        """The commands by what they are for."""
        heads = {
            command: f"{command.name} {command.takes}".rstrip() for command in COMMANDS.values()
        }
        width = max(map(len, heads.values()))
        columns = shutil.get_terminal_size().columns
        about = textwrap.fill(str(self.description), columns)
        lines = ["usage: tileops COMMAND [ARGUMENT ...]", "", about]
        for title, group in GROUPS.items():
            lines += ["", painted(title, "bold")]
            for each in group:
                line = f"  {heads[each].ljust(width)}  {each.summary}"
                lines.append(textwrap.fill(line, columns, subsequent_indent=" " * (width + 4)))
        lines += ["", textwrap.fill(str(self.epilog), min(columns, 88))]
        return "\n".join(lines) + "\n"

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; a first word that is no command is answered by the nearest that is."""
        given = sys.argv[1:] if args is None else args
        name = given[0] if given else ""
        if name.startswith("-") and name not in self._option_string_actions:
            self.error(f"unrecognized arguments: {name}; a command comes first")
        if given and not name.startswith("-") and name not in COMMANDS:
            self.error(f"no command is called {name or repr(name)}{nearest(name, COMMANDS)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is."""
        text = further(message, "`tileops --help` lists the commands")
        self.exit(2, f"{self.prog}: {painted('error:', 'red', sys.stderr)} {text}\n")


def build_parser() -> MainParser:
    """The parser of the whole command line."""
    parser = MainParser(
        prog="tileops",
        description="Operators for large language models, each described by a spec.",
        epilog=(
            "`tileops COMMAND --help` says more about a command, `tileops --version` prints the "
            "release. Commands end with 0, with 1 when the answer is bad news, as a finding or a "
            "failed check, with 2 when the arguments cannot be used. --json prints data."
        ),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for command in COMMANDS.values():
        commands.add_parser(command.name, command=command)
    return parser


def parser_of(name: str) -> CommandParser:
    """The parser of one command."""
    return CommandParser(prog=f"tileops {name}", command=COMMANDS[name])


class _Version(argparse.Action):
    """Prints the installed version; read when asked, since it looks up the distribution."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            print(f"tileops {metadata.version('tileops')}")
        except metadata.PackageNotFoundError:
            print("tileops, a checkout that is not installed")
        parser.exit()
