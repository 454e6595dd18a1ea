"""Gradients of every forward op that names a backward op, against differences in float64.

Specs admit shorter types only, so each pair is defined a second time, under specs that say float64
wherever they say float32, and with portable kernels alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

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
    stages = {stage: doubled(op.__name__) for stage, op in cls.delegate_types.items()}
    members = {"kernel_types": portable(cls), "delegate_types": stages, "__module__": __name__}
    return type(wide(name), (cls,), members)


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


def batch_norm(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """BatchNorm in training, and what its backward op takes."""
    y = torch.nn.functional.batch_norm(x, None, None, weight, training=True)
    return y, x, weight, x.mean((0, 2)), (x.var((0, 2), correction=0) + 1e-5).rsqrt()


def attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> tuple[Tensor, ...]:
    """Attention, as many query heads to each of the keys as there are, and what is kept."""
    group = q.shape[2] // k.shape[2]
    query, key, value = (x.transpose(1, 2) for x in (q, k, v))
    scores = query @ key.repeat_interleave(group, 1).mT * q.shape[3] ** -0.5
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    o = (scores.softmax(-1) @ value.repeat_interleave(group, 1)).transpose(1, 2)
    return o, q, k, v, o, scores.logsumexp(-1)


def gated_linear(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """Gated linear attention a token at a time, and the states before chunks of two."""
    state = q.new_zeros(*q.shape[:1], *q.shape[2:], v.shape[3])
    states, read = [state], []
    for t in range(q.shape[1]):
        state = g[:, t, :, :, None].exp() * state + k[:, t, :, :, None] * v[:, t, :, None]
        read.append((q[:, t, :, None] @ state)[:, :, 0] * q.shape[3] ** -0.5)
        states.append(state)
    return torch.stack(read, 1), q, k, v, g, torch.stack(states[::2], 1)


class ByHand(NamedTuple):
    """A backward op that no spec names: how it is called, and what gives the results.

    The forward takes the parameters that it has to know, too.
    """

    op: str
    params: dict[str, Any]
    forward: Callable[..., tuple[Tensor, ...]]
    shapes: tuple[tuple[int, ...], ...]
    place: int  # of the arriving gradient among the arguments

    def gradients(self, op: Op, arriving: Tensor, kept: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Those of the differentiable tensors, in their order."""
        given = [*kept[: self.place], arriving, *kept[self.place :]]
        if self.op == "GLABwdOp":
            final = torch.zeros_like(kept[-1][:, -1])
            dq, dk, dg, dv, *_ = op(*given, final)
            return dq, dk, dv, dg
        return tuple(op(*given)[: len(self.shapes)])


def by_hand_attention(op: str, heads: int, is_causal: bool) -> ByHand:
    """Attention with two heads of keys and values."""
    query, keys, params = (2, 5, heads, 8), (2, 5, 2, 8), {"is_causal": is_causal}
    return ByHand(op, params, partial(attention, **params), (query, keys, keys), 4)


ROWS, GATES = (2, 4, 3, 2), (2, 4, 3, 5)
BY_HAND = [
    ByHand("BatchNormBwdOp", {}, batch_norm, ((4, 3, 5), (3,)), 0),
    *(by_hand_attention("GroupedQueryAttentionBwdOp", 4, causal) for causal in (False, True)),
    *(by_hand_attention("MultiHeadAttentionBwdOp", 2, causal) for causal in (False, True)),
    ByHand("GLABwdOp", {"chunk_size": 2}, gated_linear, (GATES, GATES, ROWS, GATES), 5),
]


@pytest.mark.parametrize("case", BY_HAND, ids=[f"{case.op}{case.params}" for case in BY_HAND])
def test_gradients_called_by_hand_agree_with_differences(case: ByHand) -> None:
    op = doubled(case.op)(**case.params)

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *leaves: Tensor) -> Tensor:
            result, *kept = case.forward(*leaves)
            ctx.save_for_backward(*kept)
            return result

        @staticmethod
        def backward(ctx: Any, arriving: Tensor) -> Any:
            return case.gradients(op, arriving.contiguous(), ctx.saved_tensors)

    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(s, generator=generator, dtype=torch.float64) for s in case.shapes]
    assert torch.autograd.gradcheck(Both.apply, [x.requires_grad_() for x in leaves])


def test_every_backward_op_agrees_with_differences() -> None:
    """By the forward op that names it, else by hand."""
    named = {SPECS[name]["backward"]["op"] for name in PAIRS}
    backward = {name for name in SPECS if name.endswith("BwdOp")}
    assert backward - named - {case.op for case in BY_HAND} == set()
    assert named.isdisjoint(case.op for case in BY_HAND), "what a spec names is differentiated so"
