"""The command `tileops`, one module per subcommand.

`commands` lists them. Each has `add_arguments` and `run`; its docstring is its help. A command
parses its arguments, asks the library and prints; it computes nothing that the library does not.
Data goes to standard output, complaints to standard error. Exit codes: 0 good, 1 the answer is bad
news (a finding, a failed check), 2 the arguments cannot be used. What only reads specs imports no
torch, so torch is imported inside the functions that need it.
"""

from __future__ import annotations

from tileops.cli.main import main

__all__ = ["main"]
