"""The argument parser over all commands, and the one place where errors become exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tileops._core.plugins import described
from tileops.cli import (
    bench,
    demo,
    docs,
    doctor,
    explain,
    fuzz,
    list_ops,
    new,
    report,
    run,
    schema,
    show,
    stubs,
    validate,
)
from tileops.cli.output import print_everywhere
from tileops.errors import TileOpsError

COMMANDS: tuple[ModuleType, ...] = (
    list_ops,
    show,
    stubs,
    validate,
    explain,
    run,
    bench,
    report,
    fuzz,
    docs,
    new,
    schema,
    doctor,
    demo,
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tileops",
        description="Operators for large language models, each described by a spec.",
        epilog="`tileops COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        command = commands.add_parser(
            module.NAME,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; those of the process when absent.

    Returns:
        The exit code.
    """
    print_everywhere()
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except TileOpsError as error:
        print(f"tileops {args.command}: error: {error}", file=sys.stderr)
        return 2
    except SystemExit as error:
        # Nothing of ours exits below this point; what a plug-in's code does is a failure of it.
        text = f"code of a plug-in exits: {described(error)}"
        print(f"tileops {args.command}: error: {text}", file=sys.stderr)
        return 1
    except OSError as error:
        # An error about a file names it; without a name it is the output that takes no more.
        if error.filename is not None:
            raise
        if not isinstance(error, BrokenPipeError):
            text = f"cannot write the answer: {error.strerror}"
            print(f"tileops {args.command}: error: {text}", file=sys.stderr)
        # A later flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


class _Version(argparse.Action):
    """Prints the installed version; read when asked, since it looks up the distribution."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            print(f"tileops {metadata.version('tileops')}")
        except metadata.PackageNotFoundError:
            print("tileops, a checkout that is not installed")
        parser.exit()
