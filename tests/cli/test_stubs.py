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


def parameters_written(args: ast.arguments) -> dict[str, tuple[bool, bool]]:
    """Of each parameter of a stub's method, whether it is by keyword alone and has a default."""
    assert not (args.posonlyargs or args.vararg or args.kwarg)
    first = len(args.args) - len(args.defaults)
    found = {each.arg: (False, place >= first) for place, each in enumerate(args.args)}
    by_keyword = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return found | {each.arg: (True, default is not None) for each, default in by_keyword}


def parameters_taken(signature: inspect.Signature) -> dict[str, tuple[bool, bool]]:
    """The same of what a class takes when it runs."""
    return {
        name: (each.kind is each.KEYWORD_ONLY, each.default is not each.empty)
        for name, each in signature.parameters.items()
    }


@pytest.mark.parametrize("family", package.FAMILIES)
def test_every_method_has_the_parameters_of_the_class(family: str) -> None:
    tree = ast.parse((FOLDER / family / "__init__.pyi").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes
    for node in classes:
        methods = {each.name: each.args for each in node.body if isinstance(each, ast.FunctionDef)}
        spec = registry.lookup(node.name)
        assert spec is not None
        cls = class_of(spec)
        constructor = {"self": (False, False), **parameters_taken(inspect.signature(cls))}
        assert parameters_written(methods["__init__"]) == constructor, node.name
        call = parameters_taken(inspect.signature(cls.__call__))
        assert parameters_written(methods["__call__"]) == call, node.name


def test_text_of_the_constructor_tells_what_calls_take_and_return() -> None:
    """An editor shows it where the class is named."""
    text = (FOLDER / "norm" / "__init__.pyi").read_text(encoding="utf-8")
    text = text.partition("class RMSNormFwdOp(")[2].partition("def __call__")[0]
    assert "Calls take:\n            x: `T[*B, *normalized_shape]`\n            weight: `T" in text
    assert "Calls return:\n            output: `T[*B, *normalized_shape]`\n" in text


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
    assert tileops("stubs").out == "1 stub, 1 of them new or changed\n"
    assert path.read_text() == "# tileops\n"
    assert tileops("stubs").out == "1 stub, 0 of them new or changed\n"
    outcome = tileops("stubs", "--check")
    assert (outcome.code, outcome.out) == (0, "1 stub, all up to date\n")


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
    ("name", "hint"), [("tileop", "; did you mean tileops?"), ("xyz", "; known: tileops")]
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
