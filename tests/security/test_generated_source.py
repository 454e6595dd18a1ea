"""What a spec may be called or say stays data in the source that is generated from it."""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tileops import Op, manifest
from tileops._core.runtime.plan import signature_plan_for
from tileops._core.spec.names import name_fault

pytestmark = pytest.mark.usefixtures("tree_only")


def spec(
    inputs: Iterable[str],
    params: Iterable[str] = (),
    indices: Iterable[str] = ("R",),
    rule: str = "True",
) -> dict[str, Any]:
    """Inputs of one shape over the first index; every index is the length of some input."""
    names = list(indices)
    shapes = {name: f"[{names[min(i, len(names) - 1)]}]" for i, name in enumerate(inputs)}
    return {
        "family": "probes",
        "status": "spec-only",
        "signature": {
            "forall": dict.fromkeys(names, "Dim"),
            "params": {name: {"type": "int", "default": 1} for name in params},
            "inputs": {n: {"dtype": "float32", "shape": shape} for n, shape in shapes.items()},
            "outputs": {"result_": {"dtype": "float32", "shape": next(iter(shapes.values()))}},
            "shape_rules": [rule],
        },
        "workloads": [{**dict.fromkeys(names, 2), "label": "two"}],
        "roofline": {"flops": " + ".join(names)},
    }


def define(declared: dict[str, Any], name: str = "SourceFwdOp") -> type[Op]:
    """Register a spec and define its class, which returns a copy of the first input."""
    manifest.register({name: declared})
    signature = declared["signature"]
    inputs, params = list(signature["inputs"]), list(signature["params"])
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def __init__(self: Any, *values: int, target: str | None = None) -> None:
        for number, param in enumerate(params):
            setattr(self, param, values[number] if number < len(values) else 1)
        Op.__init__(self, target=target)

    def forward(self: Any, *tensors: torch.Tensor) -> torch.Tensor:
        return tensors[0].clone()

    taken = [inspect.Parameter(each, by_position) for each in ("self", *inputs)]
    forward.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return type(Op)(name, (Op,), {"__init__": __init__, "forward": forward})


def source(name: str = "SourceFwdOp") -> str:
    """The generated source of a spec."""
    plan = signature_plan_for(name)
    assert plan is not None
    return plan.source()


def admitted(names: Iterable[str]) -> list[str]:
    """The names that a spec may use, sorted."""
    return sorted(name for name in set(names) if name.isidentifier() and not name_fault(name))


BUILTINS = admitted(name for name in dir(builtins) if not keyword.iskeyword(name))


def test_names_may_be_those_of_builtins() -> None:
    assert {"print", "len", "eval", "tuple", "isinstance", "type"} <= set(BUILTINS)
    for chosen in (BUILTINS[::2], BUILTINS[1::2]):
        half = len(chosen) // 2
        inputs, params = chosen[:half], chosen[half:]
        cls = define(spec(inputs, params), f"Source{chosen[0].capitalize()}FwdOp")
        tensors = [torch.randn(3) for _ in inputs]
        op = cls()
        assert torch.equal(op(*tensors), tensors[0])
        assert op.eval_roofline()[0] == 3
        with pytest.raises(ValueError, match=rf"inputs\.{inputs[1]}\.shape"):
            op(tensors[0], torch.randn(4), *tensors[2:])


def test_indices_may_be_called_like_builtins() -> None:
    indices = BUILTINS[:20]
    op = define(spec([f"x{n}" for n in range(20)], (), indices))()
    op(*(torch.randn(n) for n in range(1, 21)))
    assert [op.last_call.indices[name] for name in indices] == list(range(1, 21))


def test_names_may_be_those_that_generated_code_uses() -> None:
    define(spec(["x"], ["gain"]))
    tree = ast.parse(source())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    inputs = admitted({*used, "torch", "op", "record"} - {"x", "gain"})
    assert len(inputs) > 5
    op = define(spec(inputs), "SourceUsedFwdOp")()
    tensors = [torch.randn(2) for _ in inputs]
    assert torch.equal(op(*tensors), tensors[0])


STRANGE = (
    "a\nimport canary",
    "a\r\nimport canary",
    "a\u2028import canary",
    "a\x0cimport canary",
    'a"""\nimport canary\n"""',
    "a'''; import canary; '''",
    "a\\",
    "#\n\timport canary",
    "{canary}",
    "%s%n",
)


@pytest.mark.parametrize("name", STRANGE, ids=range(len(STRANGE)))
def test_the_path_of_a_file_stays_in_comments(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"SourceFwdOp": spec(["x"], ["gain"], rule="R > 0")}))
    manifest.register(path)
    assert not strangers(source())


@pytest.mark.parametrize("gap", ["\n", "\r\n", "\n# import canary\n", "\t", "\x0b", "\u2028"])
def test_blanks_in_an_expression_stay_in_comments(gap: str) -> None:
    declared = spec(["x"], rule=f"R{gap}>{gap}0")
    manifest.register({"SourceFwdOp": declared})
    try:
        text = source()
    except ValueError as error:
        assert "is not in the language" in str(error)
        return
    assert not strangers(text)


LITERALS = (
    "a b",
    "a#b",
    'a"b',
    "a{b}",
    "a%b",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "import canary",
    "\x00",
)


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_stay_literals(literal: str) -> None:
    declared = spec(["x"], rule=f"mode == '{literal}' or R > 4")
    declared["signature"]["params"]["mode"] = {
        "type": f"'{literal}' | 'b' | 'c'",
        "default": literal,
    }
    cls = define(declared)
    assert not strangers(source())
    assert cls(literal)(torch.ones(2)).sum() == 2
    with pytest.raises(ValueError, match="shape_rules"):
        cls("b")(torch.ones(2))


@pytest.mark.parametrize("literal", ["a\nb", "a\\b", "a'b"])
def test_literals_that_could_end_a_string_are_refused(literal: str) -> None:
    declared = spec(["x"])
    declared["signature"]["params"]["mode"] = {"type": f"'{literal}' | 'b'", "default": "b"}
    manifest.register({"SourceFwdOp": declared})
    with pytest.raises(ValueError, match="params.mode.type"):
        source()


def strangers(text: str) -> set[str]:
    """Packages that a source imports though no generated code does, and the name `canary`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name) and node.id == "canary":
            found.add(node.id)
    return found - {"__future__", "collections", "typing", "tileops", "torch"}
