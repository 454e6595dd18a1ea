"""The pytest plugin: `pytest --tileops-ops NAME…` runs the generated tests of ops or packages.

Loaded wherever this package is installed beside pytest, so it imports nothing without the option.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parent / "generated")
"""Where the generated tests lie."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("tileops").addoption(
        "--tileops-ops",
        nargs="+",
        metavar="NAME",
        help="run the generated tests of these ops, or of the ops of these packages",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the generated tests: beside the paths given, else instead of the usual ones."""
    names = config.getoption("tileops_ops")
    if not names:
        return
    from tileops.testing.choice import ChoiceFault, chosen_ops

    try:
        chosen_ops(names)
    except ChoiceFault as fault:
        raise pytest.UsageError(f"--tileops-ops: {fault}") from None
    config.addinivalue_line("markers", "gpu: needs a CUDA device")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = []
    if FOLDER not in config.args:
        config.args.append(FOLDER)
