"""The guards of a compiled graph, beside those of the same graph made of hand-written operators."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from tileops.norm import RMSNormFwdOp

NODES = 32

_library = torch.library.Library("measured_graphs", "FRAGMENT")
_library.define(
    "norm(Tensor x, Tensor? weight, str key) -> Tensor", tags=(torch.Tag.needs_exact_strides,)
)
_library.impl("norm", lambda x, weight, key: x.clone(), "CompositeExplicitAutograd")
torch.library.register_fake(
    "measured_graphs::norm", lambda x, weight, key: torch.empty_like(x), lib=_library
)


class _HandWritten:
    """A layer that calls an operator of its own with what tells it from the others."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        result: Tensor = torch.ops.measured_graphs.norm.default(x, weight, self.key)
        return result


def _through_ops(layers: Sequence[Any], x: Tensor, weight: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, weight)
    return x


def _through_operators(layers: Sequence[Any], x: Tensor, weight: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, weight)
    return x


def guard_times() -> dict[str, float]:
    """Microseconds in which the guards of each graph are evaluated."""
    graphs: dict[str, tuple[Callable[..., Tensor], list[Any]]] = {
        "ops": (_through_ops, [RMSNormFwdOp((64,)) for _ in range(NODES)]),
        "hand-written": (
            _through_operators, [_HandWritten(f"HandWritten#00000000-{n}") for n in range(NODES)]
        ),
    }  # fmt: skip
    torch._dynamo.reset()
    checks = {}
    for name, (function, layers) in graphs.items():
        variables = {"layers": layers, "x": torch.ones(4, 64), "weight": torch.ones(64)}
        torch.compile(function, backend="eager", fullgraph=True)(**variables)
        (entry,) = _debug_get_cache_entry_list(function)
        checks[name] = _check_of(entry.guard_manager, variables)
    found = dict.fromkeys(checks, float("inf"))
    for _ in range(50):
        for name, check in checks.items():
            found[name] = min(found[name], timeit.timeit(check, number=200) / 200 * 1e6)
    assert all(check() for check in checks.values())
    return found


def _check_of(guards: Any, variables: dict[str, Any]) -> Callable[[], bool]:
    assert guards.check(variables)
    return lambda: bool(guards.check(variables))
