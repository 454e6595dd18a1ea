"""The JSON Schema admits every in-tree spec file and refuses malformed forms."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tileops.cli import main

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tileops"
SPEC_FILES = sorted([*PACKAGE.glob("*/spec.yaml"), *PACKAGE.glob("*/spec/*.yaml")])

SPEC: dict[str, Any] = {
    "family": "acme",
    "status": "spec-only",
    "signature": {
        "forall": {"N": "Dim", "T": "DType[float16]"},
        "params": {"gain": {"type": "float", "default": 1.0}},
        "inputs": {"x": {"dtype": "T", "shape": "[N]"}},
        "outputs": {"y": {"dtype": "T", "shape": "[N]"}},
    },
    "workloads": [{"N": 8, "dtype_cases": [{"T": "float16"}], "label": "tiny"}],
    "roofline": {"flops": "N"},
}


@pytest.fixture
def validator(capsys: pytest.CaptureFixture[str]) -> jsonschema.Draft202012Validator:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", SPEC_FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_in_tree_specs_have_the_form(
    validator: jsonschema.Draft202012Validator, path: Path
) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [error.message for error in validator.iter_errors(data)] == []


def test_a_small_spec_has_the_form(validator: jsonschema.Draft202012Validator) -> None:
    assert validator.is_valid({"GainFwdOp": SPEC})


def _set(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(spec: dict[str, Any]) -> None:
        target: Any = spec
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("status", value="done"),
        _set("familly", value="acme"),
        _set("signature", "forall", "N", value="Dimension"),
        _set("signature", "inputs", "x", "nullable", value="present(x)"),
        _set("signature", "inputs", "x", "requires", value=["in_range(0, N)"]),
        _set("signature", "params", "gain", "kw_only", value="yes"),
        _set("signature", "outputs", "y", "buffer", value="result"),
        _set("workloads", value=[]),
        _set("workloads", 0, "label", value="a label with blanks"),
        _set("roofline", value={"flops": "N", "func": "acme.roofline.gain"}),
        _set("composition", value={"kind": "composite", "stages": [{"name": "a"}]}),
        lambda spec: spec.pop("roofline"),
        lambda spec: spec["signature"].pop("outputs"),
        lambda spec: spec["workloads"][0].pop("label"),
    ],
)
def test_a_malformed_spec_is_refused(
    validator: jsonschema.Draft202012Validator, change: Callable[[dict[str, Any]], None]
) -> None:
    spec = copy.deepcopy(SPEC)
    change(spec)
    assert not validator.is_valid({"GainFwdOp": spec})
