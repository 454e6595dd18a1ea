"""The command line as a whole, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from tileops.cli.output import painted, print_everywhere
from tileops.cli.parser import build_parser
from tileops.errors import TileOpsError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; those of the process when absent.

    Returns:
        The exit code.
    """
    print_everywhere()
    warnings.filterwarnings(
        "ignore", "Failed to initialize NumPy"
    )  # torch's; nothing here needs it
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except TileOpsError as error:
        _complain(args.command, str(error))
        return 2
    except OSError as error:
        # An error about a file names it; without a name it is the output that takes no more.
        if error.filename is not None:
            _complain(args.command, f"{error.filename}: {error.strerror}; name another")
            return 2
        if not isinstance(error, BrokenPipeError):
            _complain(args.command, f"cannot write the answer: {error.strerror}")
        # A later flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        _complain(args.command, "interrupted")
        return 130
    except Exception:
        raise
    except BaseException as error:
        # Nothing of ours exits below this point; what a plug-in's code does is a failure of it.
        from tileops._core.plugins import described

        _complain(args.command, f"code of a plug-in exits: {described(error)}")
        return 1
    return code


def _complain(command: str, text: str) -> None:
    print(f"tileops {command}: {painted('error:', 'red', sys.stderr)} {text}", file=sys.stderr)
