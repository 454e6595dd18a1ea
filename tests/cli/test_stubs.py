"""`tileops stubs`: what type checkers and editors are told of op classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import tileops as package
from tileops._core.lang.param_types import parse_param_type
from tileops._core.spec import registry
from tileops.cli import stubs
from tileops.cli.specs import class_of
from tileops.cli.stub_types import Names

Run = Callable[..., Any]
FOLDER = Path(package.__file__).parent


def test_stubs_of_the_tree_are_up_to_date(tileops: Run) -> None:
    outcome = tileops("stubs", "--check", "--json")
    assert outcome.data["stale"] == []
    assert len(outcome.data["stubs"]) == len(package.FAMILIES)
    assert outcome.code == 0


def test_every_method_has_the_parameters_of_the_class() -> None:
    spec = registry.lookup("FusedMoEFwdOp")
    assert spec is not None
    tree = ast.parse((FOLDER / "moe" / "__init__.pyi").read_text(encoding="utf-8"))
    (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == spec.name)
    methods = {node.name: node.args for node in cls.body if isinstance(node, ast.FunctionDef)}
    names = {
        name: [each.arg for each in (*args.args, *args.kwonlyargs)]
        for name, args in methods.items()
    }
    found = class_of(spec)
    assert names["__init__"] == ["self", *inspect.signature(found).parameters]
    assert names["__call__"] == list(inspect.signature(found.__call__).parameters)


def test_hover_text_tells_dtype_shape_and_rules() -> None:
    text = (FOLDER / "norm" / "__init__.pyi").read_text(encoding="utf-8")
    text = text.partition("class RMSNormFwdOp(")[2]
    for line in (
        "Root-mean-square norm over the trailing axes",
        "eps: `float | None`, None",
        "x: `T[*B, *normalized_shape]`",
        "∀ B : Shape, T ∈ {float16, bfloat16, float32}",
        "where len(normalized_shape) > 0",
    ):
        assert line in text


def test_stale_stub_is_named_and_written(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pyi"
    monkeypatch.setattr(stubs, "stubs_of", lambda name, _: {path: f"# {name}\n"})
    outcome = tileops("stubs", "--check")
    assert (outcome.code, outcome.out) == (
        1,
        f"{path} is not up to date: run `tileops stubs tileops`\n",
    )
    assert tileops("stubs").out == "1 stubs, 1 of them new or changed\n"
    assert path.read_text() == "# tileops\n"
    assert tileops("stubs").out == "1 stubs, 0 of them new or changed\n"
    outcome = tileops("stubs", "--check")
    assert (outcome.code, outcome.out) == (0, "1 stubs, all up to date\n")


def test_place_that_cannot_be_written_is_one_error(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "absent" / "a.pyi"
    monkeypatch.setattr(stubs, "stubs_of", lambda name, _: {path: ""})
    outcome = tileops("stubs")
    assert outcome.code == 2
    assert (
        outcome.err
        == f"tileops stubs: error: {path}: No such file or directory; --check writes nothing\n"
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("tileop", "; nearest: tileops"), ("xyz", "; known: tileops")]
)
def test_package_without_ops_is_refused(tileops: Run, name: str, hint: str) -> None:
    outcome = tileops("stubs", name)
    assert outcome.code == 2
    assert f"no implemented op is of package {name}{hint}\n" in outcome.err


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("int | list[int] | tuple[int, ...] | None", "int | list[int] | tuple[int, ...] | None"),
        ("tuple[int | None, int]", "tuple[int | None, int]"),
        ("'1d' | '2d' | None", 'Literal["1d", "2d"] | None'),
        ("float16 | bfloat16", "torch.dtype"),
        ("torch.device | str", "torch.device | str"),
        ("Number", "complex"),
        ("no.such.Class | None", "Any | None"),
    ],
)
def test_types_of_parameters(declared: str, written: str) -> None:
    spec = registry.lookup("RMSNormFwdOp")
    assert spec is not None
    assert Names("tileops.norm").declared(spec, parse_param_type(declared)) == written


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        (None, "None"),
        (torch.Tensor | None, "Tensor | None"),
        (tuple[torch.Tensor, int], "tuple[Tensor, int]"),
        (Literal["a", 1], 'Literal["a", 1]'),
        (list[int], "Any"),
        ("text", "Any"),
    ],
)
def test_types_of_everything_else(annotation: object, written: str) -> None:
    assert Names("tileops.norm").annotation(annotation) == written
