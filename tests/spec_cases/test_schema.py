"""The JSON Schema and the reader agree on form: what it admits, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tileops
from tileops._core.lang.dtypes import BITS
from tileops._core.spec.content import file_content
from tileops._core.spec.model import AdtTable
from tileops._core.spec.reader import read_spec
from tileops._core.spec.schema import json_schema
from tileops._core.spec.source import Source
from tileops._core.spec.tree import Tree
from tileops._core.spec.yaml12 import Node, plain, read_yaml

HERE = Path(__file__).parent
PACKAGE = Path(tileops.__file__).parent
TREE = sorted([*PACKAGE.glob("*/spec.yaml"), *PACKAGE.glob("*/spec/*.yaml")])
VALIDATOR = jsonschema.Draft202012Validator(json_schema())

FORM = ("not a key of ", "required field is missing", "expected a mapping", "expected a list")
"""How messages about the form of a field begin."""


def faults_of_form(name: str, node: Node) -> list[str]:
    """What the reader says of the form of a spec."""
    spec = read_spec(name, node, Source("test", package=None), AdtTable())
    texts = [found.message.partition("] ")[2] for found in spec.faults]
    return [text for text in texts if text.startswith(FORM)]


@pytest.mark.parametrize(
    "path", [*TREE, *sorted((HERE / "wellformed").glob("*.yaml"))], ids=lambda path: path.stem
)
def test_well_formed_files_are_admitted(path: Path) -> None:
    data = plain(read_yaml(path.read_bytes()).root)
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []


@pytest.mark.parametrize("path", sorted((HERE / "malformed").glob("*.yaml")), ids=lambda p: p.stem)
def test_faults_of_form_are_refused(path: Path) -> None:
    content = file_content(path, Source(str(path), package=None))
    for name, node in content.specs.items():
        if faults_of_form(name, node):
            assert not VALIDATOR.is_valid({name: plain(node)}), name


def test_what_is_refused_is_at_fault() -> None:
    """A spec of the corpus that the schema refuses has findings."""
    for path in sorted((HERE / "malformed").glob("*.yaml")):
        content = file_content(path, Source(str(path), package=None))
        for name, node in content.specs.items():
            if not VALIDATOR.is_valid({name: plain(node)}):
                spec = read_spec(name, node, Source("test", package=None), AdtTable())
                assert spec.faults, name


def test_types_files_are_admitted() -> None:
    roots = HERE / "trees" / "names"
    for content in Tree(roots, ["elementwise"]).contents():
        adts = {name: plain(node) for name, node in content.adts.items()}
        assert VALIDATOR.is_valid({"adts": adts})
    malformed: Any = plain(read_yaml((HERE / "malformed" / "adts.yaml").read_bytes()).root)
    refused = {
        name
        for name, adt in malformed["adts"].items()
        if not VALIDATOR.is_valid({"adts": {name: adt}})
    }
    assert {"NoMapping", "NoSum", "Empty", "NoClass"} <= refused


def test_dtypes_of_combinations_are_the_registered_ones() -> None:
    spec = plain(read_yaml((HERE / "wellformed" / "params.yaml").read_bytes()).root)[
        "DtypeCombosFwdOp"
    ]
    for dtype in BITS:
        spec["signature"]["dtype_combos"] = [{"T": dtype}]
        assert VALIDATOR.is_valid({"AFwdOp": spec})
    spec["signature"]["dtype_combos"] = [{"T": "float17"}]
    assert not VALIDATOR.is_valid({"AFwdOp": spec})


def test_the_editor_settings_cover_every_spec_file() -> None:
    root = HERE.parents[1]
    settings = json.loads((root / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    [(schema, globs)] = settings["yaml.schemas"].items()
    assert json.loads((root / schema).read_text(encoding="utf-8")) == json_schema()
    covered = {path for pattern in globs for path in root.glob(pattern)}
    assert set(TREE) <= covered
