"""How far a command is: lines always, a bar where a person watches."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tileops.bench import ceilings
from tileops.bench.results import Keeper, Results
from tileops.cli import main
from tileops.cli.commands import COMMANDS
from tileops.cli.progress import Tell, counted, progress, waiting


def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have somebody watch; for tests themselves, whose streams are not those of fixtures."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """What draws bars is not installed."""
    imported = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("rich"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)


def steps() -> None:
    with progress(2) as told:
        told.advance("one")
        told.advance("two")


def test_lines_are_printed_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    steps()
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_terminal_has_a_bar_below_the_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch)
    steps()
    out = capsys.readouterr().out
    assert "one" in out
    assert "rows" in out
    assert "2/2" in out


def test_without_rich_a_terminal_has_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, without_rich: None
) -> None:
    watched(monkeypatch)
    steps()
    out, err = capsys.readouterr()
    assert out == "one\ntwo\n"
    shown = [part for part in err.split("\r\x1b[K") if part]
    assert shown == [f"row {number} of at most 2 …" for number in (1, 2)]
    assert err.endswith("\r\x1b[K")


def test_data_has_neither_lines_nor_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch)
    with progress(1, silent=True) as told:
        told.advance("one")
    with waiting("counting", silent=True) as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_long_step_that_tells_how_far_it_is_has_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch)
    with waiting("counting") as tell:
        assert list(counted("abc", tell)) == ["a", "b", "c"]
        print("meanwhile", file=sys.stderr)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("counting …\r\x1b[K")
    assert "meanwhile" in err
    assert "3/3" in err


def test_a_long_step_has_its_name_and_how_much_is_done_without_rich(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, without_rich: None
) -> None:
    watched(monkeypatch)
    with waiting("counting") as tell:
        list(counted("abc", tell))
    told = [f"counting … {done} of 3" for done in (0, 1, 2, 3)]
    assert capsys.readouterr() == ("", "\r\x1b[K".join(["counting …", *told, ""]))


@pytest.mark.parametrize(
    "command",
    [
        ("validate", "NegFwdOp", "AbsFwdOp"),
        ("docs", "pages"),
        ("stubs", "--check"),
        ("report", "found.json"),
        ("fuzz", "NegFwdOp", "--seconds", "0.01"),
        ("doctor", "--measure"),
    ],
    ids=lambda command: command[0],
)
def test_long_commands_tell_how_far_they_are(
    command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    shares: list[tuple[float, float]] = []

    @contextmanager
    def heard(what: str, *, silent: bool) -> Iterator[Tell]:
        assert what and not silent
        yield lambda done, total: shares.append((done, total))

    monkeypatch.setattr(import_module(COMMANDS[command[0]].module_name), "waiting", heard)
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 1 << 20})
    monkeypatch.setattr(ceilings, "EDGE", {"cpu": 64})
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Keeper(tmp_path / "found.json", Results()).write()
    assert main(command) == 0, capsys.readouterr()
    assert shares
    assert all(0 <= done <= total for done, total in shares)
    assert shares == sorted(shares), "it goes on, and never back"


@pytest.mark.parametrize(("term", "said"), [("xterm", "counting …\r\x1b[K"), ("dumb", "")])
def test_a_long_step_is_named_until_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, term: str, said: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    with pytest.raises(ArithmeticError), waiting("counting"):
        raise ArithmeticError
    assert capsys.readouterr() == ("", said)


def test_nobody_is_told_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("counting"):
        pass
    assert capsys.readouterr() == ("", "")
