"""Gradients of every forward op that names a backward op, against differences in float64.

Specs admit shorter types only, so each pair is defined a second time, under specs that say float64
wherever they say float32, and with portable kernels alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tileops import Op, manifest
from tileops.testing.calling import class_of, inputs, parameters
from tileops.testing.drawing import DrawnCall
from tileops.testing.generated.test_gradients import differentiable, leaves

SPECS = dict(manifest.specs())  # before tests make others of them
PAIRS = sorted(name for name, spec in SPECS.items() if "backward" in spec)
CALLS = 4
"""Calls of each op, on different branches as far as there are any."""


def wide(name: str) -> str:
    """The name of an op's double."""
    return f"Wide{name}"


@cache
def doubled(name: str) -> type[Op]:
    """The class of an op whose tensors are float64."""
    declared = manifest.specs()[name]
    spec = {key: declared[key] for key in ("family", "workloads")} | {"status": "spec-only"}
    text = json.dumps(declared["signature"], default=dict)
    text = re.sub(r"\b(bfloat16|float16|float32)\b", "float64", text)
    spec["signature"] = json.loads(re.sub(r"float64( \| float64)+", "float64", text))
    spec["roofline"] = {"flops": "0"}
    backward = declared.get("backward")
    if backward is not None:
        kept.append(doubled(backward["op"]))
        spec["backward"] = dict(backward) | {"op": wide(backward["op"])}
    manifest.register({wide(name): spec})
    cls = class_of(name)
    return type(wide(name), (cls,), {"kernel_types": portable(cls), "__module__": __name__})


kept: list[type[Op]] = []
"""Classes of backward ops, which are found by name only while something holds them."""


def portable(cls: Any) -> Mapping[str, Any]:
    """The kernels of a class that run everywhere."""
    return {key: kernel for key, kernel in cls.kernel_types.items() if not kernel.needs_tilelang}


def calls(name: str) -> list[DrawnCall]:
    """Calls of an op with something to differentiate by, those of different branches first."""
    by_branch: dict[str, DrawnCall] = {}
    for call in differentiable(name):
        if all(t.numel() for t in leaves(call).values()):
            by_branch.setdefault(f"{sorted(call.point.items(), key=str)}", call)
    return list(by_branch.values())[:CALLS]


def floats(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, in float64 what has a dtype with a point."""
    return {name: _float(value) for name, value in given.items()}


def _float(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if is_float else value


def check(call: DrawnCall, op: Op, given: Mapping[str, Tensor]) -> None:
    """Differences of all results of a call in all elements of the inputs that have gradients."""

    def function(*tensors: Tensor) -> Any:
        return op(**{**floats(inputs(call)), **dict(zip(given, tensors, strict=True))})

    values = [tensor.requires_grad_() for tensor in given.values()]
    assert torch.autograd.gradcheck(function, values, fast_mode=True), str(call)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_agree_with_differences(name: str) -> None:
    assert calls(name)
    for call in calls(name):
        check(call, doubled(name)(**floats(parameters(call))), floats(leaves(call)))


def test_backward_ops_belong_to_a_forward_op_unless_they_take_what_none_returns() -> None:
    named = {SPECS[name]["backward"]["op"] for name in PAIRS}
    alone = {name for name in SPECS if name.endswith("BwdOp")} - named
    assert alone == {
        "BatchNormBwdOp", "GLABwdOp", "GroupedQueryAttentionBwdOp", "MultiHeadAttentionBwdOp",
    }  # fmt: skip
