"""Documents agree with what they describe: links lead somewhere, examples run, commands exist."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from console import run_session
from pages import ROOT, all_fences, fences

from tileops import errors
from tileops.cli.commands import COMMANDS
from tileops.cli.parser import build_parser

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"`(tileops [a-z][^`\n]*)`|^(tileops [a-z].*)$", re.MULTILINE)
RUNNABLE = ([], ["tilelang"]) if find_spec("tilelang") else ([],)
SET_UP = re.compile(r"^make (\w+)", re.MULTILINE)


def document(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=document)
def test_links_lead_somewhere(path: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(path.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=document)
@pytest.mark.usefixtures("own_world")
def test_examples_run(path: Path) -> None:
    """Blocks of one document share their names and a folder.

    A block marked `file NAME` is a file that lies where the later ones run, `fragment` is parsed
    only, `raises ERROR` raises what its last line begins, and what is marked `tilelang` needs it.
    One marked `append NAME` is added to such a file; what is appended to the tree and what runs
    there is the matter of `test_contributing`.
    """
    names: dict[str, Any] = {"__name__": "example"}
    for (language, *words), body in filter(itemgetter(0), all_fences(path)):
        if words[:1] == ["file"]:
            write(Path(words[1]), body)
        elif words[:1] == ["append"] and Path(words[1]).exists():
            with Path(words[1]).open("a", encoding="utf-8") as file:
                file.write(f"{body}\n")
        elif language == "console" and words in RUNNABLE:
            run_session(body)
        elif language == "python":
            run_block(body, str(path), words, names)


def write(file: Path, body: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{body}\n", encoding="utf-8")


def run_block(body: str, path: str, words: list[str], names: dict[str, Any]) -> None:
    code = compile(ast.parse(body), path, "exec")
    if words[:1] == ["raises"]:
        told = body.splitlines()[-1].removeprefix("# ").removesuffix("…")
        with pytest.raises(getattr(errors, words[1]), match=f"^{re.escape(told)}"):
            exec(code, names)
    elif words[:1] not in (["fragment"], ["append"]):
        exec(code, names)


@pytest.mark.parametrize("path", DOCUMENTS, ids=document)
def test_commands_parse(path: Path) -> None:
    for inline, line in COMMAND.findall(path.read_text(encoding="utf-8")):
        words = shlex.split(inline or line, comments=True)[1:]
        if inline and len(words) == 1:  # It is named and not called.
            assert words[0] in COMMANDS
        elif not any(word.isupper() and len(word) > 1 for word in words[1:]):
            build_parser().parse_args(words)


def test_readme_has_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Set up")[2].partition("\n## ")[0]
    commands = [SET_UP.findall(body) for _, body in fences(ROOT / "README.md", "sh")]
    assert commands[0] == ["demo", "test"]
    assert "make demo" in section


def test_readme_shows_the_results() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "readme_results.py"))
    assert script["main"](["--check"]) == 0


def test_every_target_of_the_makefile_is_explained() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    explained = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert explained == set(phony[1].split())
