"""The pytest plugin: `pytest --tileops-ops NAME…` runs the generated tests of ops or packages.

Loaded wherever this package is installed beside pytest, so it imports nothing without the option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parent / "generated")
"""Where the generated tests lie."""

SERVED = "tileops served"
"""The property of a test's report that holds what served which ops."""

LOWERED = "tileops lowered"
"""The property that holds the kernels of which programs were lowered, each with its op."""


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
        ops = chosen_ops(names)
    except ChoiceFault as fault:
        raise pytest.UsageError(f"--tileops-ops: {fault}") from None
    config.addinivalue_line("markers", "gpu: needs a CUDA device")
    config.pluginmanager.register(ServingSummary(ops))
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = []
    if FOLDER not in config.args:
        config.args.append(FOLDER)


class ServingSummary:
    """Tells at the end who served the ops under test, wherever their tests ran."""

    def __init__(self, ops: Sequence[str]) -> None:
        self._ops = ops
        self._servers: Counter[tuple[str, str]] = Counter()
        self._lowered: Counter[tuple[str, str]] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Put what served into the report, which other processes send."""
        from tileops.testing.serving import constructed_ops, servers_of

        with constructed_ops() as ops:
            try:
                return (yield)
            finally:
                item.user_properties.append((SERVED, servers_of(ops)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a report tells."""
        if report.when == "call":
            for name, counter in ((SERVED, self._servers), (LOWERED, self._lowered)):
                found = dict(report.user_properties).get(name, ())
                counter.update((op, each) for op, each in found)  # type: ignore[attr-defined]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Lines for each op, and one for each backend that did not load."""
        from tileops.testing import lowering, refusals
        from tileops.testing.serving import summary

        terminalreporter.section("tileops")
        lines = [
            *summary(self._ops, self._servers),
            *refusals.told(self._ops),
            *lowering.told(self._ops, self._lowered),
        ]
        for line in lines:
            terminalreporter.line(f"tileops: {line}")
