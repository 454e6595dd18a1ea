"""What all commands share: help, exit codes, one clear error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

from tileops.cli import commands, op_pages, schema
from tileops.cli.commands import COMMANDS, GROUPS, Command
from tileops.cli.output import painted, table
from tileops.cli.parser import parser_of

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]


def test_help_names_every_command(tileops: Run) -> None:
    outcome = tileops("--help")
    assert outcome.code == 0
    for command in COMMANDS.values():
        assert f"\n  {command.name}" in outcome.out
        assert command.summary in outcome.out
    for title in GROUPS:
        assert f"\n\n{title}\n" in outcome.out


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_every_command_has_help(tileops: Run, command: Command) -> None:
    outcome = tileops(command.name, "--help")
    assert outcome.code == 0
    doc = import_module(command.module_name).__doc__ or ""
    assert doc.splitlines()[0] in outcome.out


def test_every_module_with_a_run_is_a_command() -> None:
    folder = Path(commands.__file__).parent
    runs = {p.stem for p in folder.glob("*.py") if "\ndef run(args" in p.read_text("utf-8")}
    assert runs == {command.module_name.rpartition(".")[2] for command in COMMANDS.values()}


def test_options_of_one_name_mean_one_thing() -> None:
    """The same words everywhere but where a command has more to say."""
    said: dict[str, set[str | None]] = {}
    for name in COMMANDS:
        for action in parser_of(name).actions():
            for option in action.option_strings:
                said.setdefault(option, set()).add(action.help)
    assert {option for option, words in said.items() if len(words) > 1} == {
        "--against", "--check", "--device", "--dtype", "--json", "--seconds", "--source"
    }  # fmt: skip


def test_version_is_that_of_the_distribution(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: f"1.2.3 of {name}")
    outcome = tileops("--version")
    assert outcome.code == 0
    assert outcome.out == "tileops 1.2.3 of tileops\n"


def test_version_of_a_bare_checkout_says_so(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    outcome = tileops("--version")
    assert outcome.code == 0
    assert outcome.out == "tileops, a checkout that is not installed\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("bogus",), "no command is called bogus; `tileops --help` lists the commands"),
        (
            ("lst",),
            "no command is called lst; did you mean list? `tileops --help` lists the commands",
        ),
        (("",), "no command is called ''"),
        (("--bogus",), "unrecognized arguments: --bogus; a command comes first; `tileops --help`"),
        (("show",), "required: OP"),
        (("completion",), "the following arguments are required: SHELL\n"),
        (("list", "--bogus"), "unrecognized arguments: --bogus; see `tileops list --help`"),
        (("list", "--fam", "x"), "unrecognized arguments: --fam; did you mean --family?\n"),
        (("list", "--seed=1"), "unrecognized arguments: --seed=1; `tileops fuzz` has --seed"),
        (
            ("bench", "--shape=x=2"),
            "--shape=x=2; `tileops explain` and `tileops run` have --shape",
        ),
        (("list", "--budget", "1"), "--budget; `tileops bench` has --budget"),
        (("schema", "--row", "a"), "`tileops explain` and `tileops run` and `tileops bench` have"),
        (("schema", "more"), "unrecognized arguments: more; see `tileops schema --help`"),
        (("list", "--status", "done"), "invalid choice: 'done'"),
        (("list", "--family", "nrom"), "no family is called nrom; did you mean norm?\n"),
        (("list", "--family", ""), "no family is called ''; known: attention, "),
        (("show", "rmsnorm"), "no op is called rmsnorm; did you mean RMSNormFwdOp? Also near: "),
        (("show", "RMSNormBwd"), "no op is called RMSNormBwd; did you mean RMSNormBwdOp?\n"),
        (("show", "qqqq"), "no op is called qqqq; `tileops list` lists all\n"),
        (("validate", "NormFwdOp"), "no op is called NormFwdOp"),
        (("validate", "--source", "nowhere.yaml"), "no such file: nowhere.yaml"),
        (("validate", "--branch-limit", "0"), "expected a whole number of at least 1, got 0"),
        (("validate", "--branch-limit", "x"), "expected a whole number of at least 1, got x"),
        (("validate", "pyproject.toml"), "pyproject.toml is a file, not an op; try: --source"),
        (("show", "AddFwdOp", "--source", "--interfaces"), "not allowed with argument --source"),
        (("fuzz", "AddFwdOp", "--seconds", "-1"), "expected a number of at least 0.001, got -1"),
        (("fuzz", "AddFwdOp", "--seconds", "nan"), "expected a number of at least 0.001, got nan"),
        (("fuzz", "AddFwdOp", "--seconds", "inf"), "expected a number of at least 0.001, got inf"),
        (("bench", "--seconds", "-1"), "argument --seconds: expected a number of at least 0, got"),
        (("bench", "--seconds", ""), "expected a number of at least 0, got ''"),
        (("bench", "--budget", "-1"), "expected a number of at least 0, got -1"),
        (("bench", "--patience", "0"), "expected a number of at least 0.001, got 0"),
        (("bench", "--jobs", "-5"), "expected a whole number of at least 0, got -5"),
        (("bench", "--tolerance", "x"), "expected a number of at least 0 and below 1, got x"),
        (
            ("bench", "--family", "nrm"),
            "no family of implemented ops is called nrm; did you mean norm?\n",
        ),
        (
            ("run", "RMSNormFwdOp", "--row", "llama-3.1-8b-decod"),
            "no case of row llama-3.1-8b-decod; did you mean llama-3.1-8b-decode? Also near: ",
        ),
        (
            ("explain", "RMSNormFwdOp", "--row", "llama-3.1-8b-decod"),
            "is of these labels and dtypes; did you mean llama-3.1-8b-decode? Also near: ",
        ),
        (
            ("explain", "RMSNormFwdOp", "--shape", "x=2x64"),
            "--param normalized_shape=VALUE is needed: it has no default, its type is list[int] | ",
        ),
        (("demo", "a", "b", "--file", "c"), "not both"),
        (("demo", "--file", "nowhere.txt"), "nowhere.txt: No such file"),
        (("demo", "alone"), "two are needed, got 1"),
        (("demo", "--device", "cuda:99"), "cuda:99 cannot be used: "),
        (
            ("run", "AddFwdOp", "--device", "cpu:5"),
            "cpu:5 cannot be used: there is one CPU",
        ),
        (("run", "AddFwdOp", "--device", "moon"), "; `tileops doctor` lists the devices"),
        (("run", "AddFwdOp", "--target", "nope"), "; known: builtin; a package registers"),
        (("bench", "AddFwdOp", "--target", ""), "no target is called ''; known: builtin"),
    ],
)
def test_unusable_arguments_are_one_error_and_exit_2(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert outcome.err.count("error:") == 1
    assert "Traceback" not in outcome.err


def test_an_unusable_file_is_one_error(tileops: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    outcome = tileops("demo", "--file", str(empty))
    assert outcome.code == 2
    assert outcome.err == f"tileops demo: error: {empty}: holds no sentence\n"


def test_a_file_that_cannot_be_used_is_no_traceback(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "README.md").mkdir()
    monkeypatch.setattr(op_pages, "pages", lambda specs, results, tell: {"README.md": ""})
    outcome = tileops("docs", str(tmp_path))
    assert outcome.code == 2
    assert (
        outcome.err == f"tileops docs: error: {tmp_path}/README.md: Is a directory; name another\n"
    )


def test_who_interrupts_is_not_shown_where(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(schema, "run", interrupted)
    outcome = tileops("schema")
    assert (outcome.code, outcome.err) == (130, "tileops schema: error: interrupted\n")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_map_fits_its_terminal(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = tileops("--help").out.splitlines()
    assert max(map(len, lines)) <= columns
    told = " ".join(" ".join(lines).split())
    assert all(command.summary in told for command in COMMANDS.values())


def test_a_reader_that_leaves_is_no_error() -> None:
    program = "import sys; from tileops.cli import main; sys.exit(main(['schema']))"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert err == ""


def test_module_and_script_are_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tileops.cli", "list", "--family", "norm"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RMSNormFwdOp" in done.stdout


def test_table_aligns_columns_and_ends_lines_clean() -> None:
    text = table(("A", "COUNT", "C"), [("long", "1", ""), ("x", "100", "y")], right=frozenset({1}))
    assert text == "A     COUNT  C\nlong      1\nx       100  y"


def test_list_prints_names_sorted(tileops: Run) -> None:
    outcome = tileops("list")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["OP", "FAMILY", "STATUS", "PACKAGE", "MIRRORS"]
    names = [line.split()[0] for line in lines[1:]]
    assert names == sorted(names)
    assert {"RMSNormFwdOp", "GemmFwdOp"} <= set(names)


def test_list_filters_and_prints_data(tileops: Run) -> None:
    outcome = tileops("list", "--family", "gemm", "--status", "implemented", "--json")
    assert {row["op"] for row in outcome.data} >= {"GemmFwdOp"}
    assert {(row["family"], row["status"]) for row in outcome.data} == {("gemm", "implemented")}


def test_list_finds_ops_by_words_of_what_they_are(tileops: Run) -> None:
    def names(*arguments: str) -> set[str]:
        return {row["op"] for row in tileops("list", *arguments, "--json").data}

    assert "FusedAddRMSNormFwdOp" in names("rms") <= names()
    assert "RoPENeoxPositionIdsFwdOp" in names("ROTARY", "positions")  # of its description
    assert names("rotary", "--family", "norm") == {"FusedQKNormRoPEFwdOp"}
    assert "GemmFwdOp" in names("matmul")  # of what it mirrors
    outcome = tileops("list", "rotary", "pizza")
    assert outcome.err == "no op speaks of rotary and pizza: give fewer words\n"
    assert (outcome.out, outcome.code) == ("", 1)
    alone = tileops("list", "pizza")
    assert alone.err == "no op speaks of pizza: without a word all ops are listed\n"


@pytest.mark.parametrize(
    ("word", "op"), [("SwiGLU", "SiluAndMulFwdOp"), ("GeGLU", "GeluAndMulFwdOp")]
)
def test_list_finds_ops_by_the_usual_name(tileops: Run, word: str, op: str) -> None:
    assert op in {row["op"] for row in tileops("list", word, "--json").data}


def test_list_names_the_ops_with_gradients(tileops: Run) -> None:
    rows = {row["op"]: row["backward"] for row in tileops("list", "--gradients", "--json").data}
    assert rows["RMSNormFwdOp"] == "RMSNormBwdOp"
    assert None not in rows.values()
    assert "AddFwdOp" not in rows


@pytest.mark.parametrize(
    ("is_terminal", "environment", "shown"),
    [
        (True, {}, "\x1b[31mx\x1b[0m"),
        (False, {}, "x"),
        (True, {"NO_COLOR": "1"}, "x"),
        (True, {"NO_COLOR": ""}, "\x1b[31mx\x1b[0m"),
        (True, {"TERM": "dumb"}, "x"),
    ],
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, environment: dict[str, str], shown: str
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert painted("x", "red") == shown


def test_help_loads_no_command() -> None:
    program = (
        "import sys; from tileops.cli.parser import build_parser; build_parser().format_help()\n"
        "print([name for name in sys.modules if name.startswith('tileops.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cli.list_ops" not in done.stdout
    assert "_core" not in done.stdout
