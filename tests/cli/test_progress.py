"""How far a command is: lines always, a bar where a person watches."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from tileops.cli.progress import progress, waiting


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
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    steps()
    out = capsys.readouterr().out
    assert "one" in out
    assert "rows" in out
    assert "2/2" in out


def test_without_rich_a_terminal_has_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("rich"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    steps()
    assert capsys.readouterr().out == "one\ntwo\n"


def test_data_has_no_lines_and_its_bar_is_beside_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(1, silent=True) as told:
        told.advance("one")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1/1" in captured.err


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
