"""docs/manifest.md: every spec on it does what the page says, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, fences

from tileops import manifest
from tileops._core.lang.dtypes import BITS
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.spec.yaml12 import plain, read_yaml
from tileops._core.validate.report import check_number

PAGE = ROOT / "docs" / "manifest.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = [(words[1], body) for words, body in fences(PAGE, "yaml") if words[:1] == ["file"]]
SIGNATURES = [(words[1:], body) for words, body in fences(PAGE, "yaml") if words[0] == "signature"]
CALL = re.compile(r"`((?:\w+\.)?\w+)\(")


def section(title: str) -> str:
    """The text under a heading."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, without heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if not set(row[0]) <= set("- ")]


@pytest.mark.parametrize(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_files_have_no_findings(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, body in fences(PAGE, "python"):
        if words[:1] == ["file"]:
            (tmp_path / words[1]).write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert manifest.validate(source=plain(read_yaml(text.encode()).root)).findings == []


@pytest.mark.parametrize("number", range(len(SIGNATURES)))
def test_signatures_have_the_findings_named_and_no_others(number: int) -> None:
    words, text = SIGNATURES[number]
    spec: dict[str, Any] = {
        "family": "acme",
        "status": "spec-only",
        "signature": plain(read_yaml(text.encode()).root),
        "workloads": [{"label": "none"}],
        "roofline": {"flops": 0},
    }
    findings = manifest.validate(source={"ExampleFwdOp": spec}).findings
    found = {f"V{check_number(each)}" for each in findings if each.field.startswith("signature")}
    assert found == set(words), findings


@pytest.mark.parametrize(
    ("title", "roles"),
    [
        ("Primitives", {"primitive", "list"}),
        ("Generators", {"generator"}),
        ("Predicates", {"predicate"}),
    ],
)
def test_the_tables_of_built_ins_are_complete(title: str, roles: set[str]) -> None:
    listed = [name for row in rows(section(title)) for name in CALL.findall(row[0])]
    declared = {name: BUILTINS[name] for name in listed}
    assert set(declared) == {name for name in BUILTINS if BUILTINS[name].role in roles}
    assert len(listed) == len(declared)
    for name, signature in re.findall(r"`((?:\w+\.)?\w+)\(([^`]*)\)`", section(title)):
        if name in declared and declared[name].role in {"generator", "predicate"}:
            arguments = [argument for argument in signature.split(", ") if argument]
            assert len(arguments) == len(declared[name].parameters), name


def test_every_dtype_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", section("Indices").partition("Registered dtypes")[2]))
    assert named >= {name for name in BITS if not re.fullmatch(r"u?int(16|32)", name)}


SURROUNDINGS = """
forall: {R: Dim, C: Dim, N: Dim, S: Shape, A: Dim, B: Dim}
params:
  cap: {type: "int | None", default: null}
  k: {type: "int | tuple[int, int]", default: 1}
  dim: {type: "list[int]", default: []}
  r: {type: int, default: 1}
inputs:
  x: {dtype: float32, shape: "[R, C, N, *S, A, B]"}
  bias: {dtype: float32, shape: "[C]", optional: true}
outputs: {y: {dtype: float32, shape: "[R]"}}
"""


def codes(rule: str) -> set[int]:
    """The checks that reject a rule where all that the table speaks of is declared."""
    signature = {**plain(read_yaml(SURROUNDINGS.encode()).root), "shape_rules": [rule]}
    spec = {"family": "acme", "status": "spec-only", "signature": signature}
    spec |= {"workloads": [{"label": "none"}], "roofline": {"flops": 0}}
    findings = manifest.validate(source={"ExampleFwdOp": spec}).findings
    return {check_number(each) for each in findings if each.field == "signature.shape_rules[0]"}


REWRITES = rows(section("What is rejected, and what to write"))[1:]


@pytest.mark.parametrize("row", REWRITES, ids=range(len(REWRITES)))
def test_originals_are_rejected_and_rewrites_are_not(row: list[str]) -> None:
    for text in re.findall(r"`([^`]+)`", row[0]):
        assert codes(text) == {13}
    for text in re.findall(r"`([^`]+)`", row[1]):
        if text.startswith(("x:", "let:", "[")):
            continue
        is_rule = " or " in text or "==" in text or text.startswith(("not", "unique"))
        assert codes(text if is_rule else f"{text} == {text}") <= {34}
