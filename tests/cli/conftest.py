"""Running the command in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tileops.bench import clock
from tileops.cli import main


@dataclass(frozen=True)
class Outcome:
    """What one run of the command gave."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output read as JSON."""
        return json.loads(self.out)


@pytest.fixture
def tileops(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command with these arguments."""

    def run(*arguments: str) -> Outcome:
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time counts as unsteady, however busy the machine of the tests is."""
    monkeypatch.setattr(clock, "UNSTEADY", math.inf)


@pytest.fixture(autouse=True)
def own_manifest(tree_only: None) -> None:
    """What other tests registered is no business of the command line."""
