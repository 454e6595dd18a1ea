"""References of the moe family: float64 from the inputs as given, each result rounded once.

Where a part of a result is unspecified or its order free, a function `<name>_canonical` brings a
result into the one form in which all right results are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def moe_grouped_gemm(
    a: Tensor,
    b: Tensor,
    layout_metadata: Tensor,
    *,
    layout: Any,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """`a_e @ b_e.T` for each expert, gated where there is an activation; other rows are 0."""
    n = b.shape[1] if activation is None else b.shape[1] // 2
    out = torch.zeros(*a.shape[:-1], n, dtype=torch.float64)
    for expert, rows in _expert_rows(layout, layout_metadata, b.shape[0]):
        out[rows] = _gated(a[rows].double() @ b[expert].double().T, activation)
    return out.to(out_dtype or a.dtype)


def moe_grouped_gemm_canonical(
    results: tuple[Tensor], a: Tensor, b: Tensor, layout_metadata: Tensor, *, layout: Any, **_: Any
) -> tuple[Tensor]:
    """Rows of no expert are 0."""
    return (_valid_rows(results[0], layout, layout_metadata, b.shape[0]),)


def moe_expert_mlp(
    expert_input: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    layout_metadata: Tensor,
    *,
    layout: Any,
    activation: str = "silu_and_mul",
) -> Tensor:
    """The gated layer of each expert on its rows; other rows are 0."""
    out = torch.zeros_like(expert_input, dtype=torch.float64)
    for expert, rows in _expert_rows(layout, layout_metadata, w_down.shape[0]):
        hidden = _gated(expert_input[rows].double() @ w_gate_up[expert].double().T, activation)
        out[rows] = hidden @ w_down[expert].double().T
    return out.to(expert_input.dtype)


def moe_expert_mlp_canonical(
    results: tuple[Tensor],
    expert_input: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    layout_metadata: Tensor,
    *,
    layout: Any,
    **_: Any,
) -> tuple[Tensor]:
    """Rows of no expert are 0."""
    return (_valid_rows(results[0], layout, layout_metadata, w_down.shape[0]),)


def shared_expert_mlp(hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """`silu_and_mul(x @ w_gate_up.T) @ w_down.T`."""
    hidden = _gated(hidden_states.double() @ w_gate_up.double().T, "silu_and_mul")
    return (hidden @ w_down.double().T).to(hidden_states.dtype)


def _gated(y: Tensor, activation: str | None) -> Tensor:
    """`act(gate) * up`, or `y` without an activation."""
    if activation is None:
        return y
    gate, up = y.chunk(2, -1)
    return (F.silu(gate) if activation == "silu_and_mul" else F.gelu(gate)) * up


def _expert_rows(layout: Any, metadata: Tensor, experts: int) -> Iterator[tuple[int, Any]]:
    """Each expert, and the index of its rows."""
    contents = metadata.tolist()
    start = 0
    for expert in range(experts):
        if layout.kind == "masked":
            yield expert, (expert, slice(0, contents[expert]))
        elif layout.metadata_kind == "per_row":
            yield expert, [row for row, owner in enumerate(contents) if owner == expert]
        else:
            yield expert, slice(start, contents[expert])
            start = -(-contents[expert] // layout.alignment) * layout.alignment


def _valid_rows(result: Tensor, layout: Any, metadata: Tensor, experts: int) -> Tensor:
    """The result with 0 in rows of no expert."""
    kept = torch.zeros_like(result)
    for _, rows in _expert_rows(layout, metadata, experts):
        kept[rows] = result[rows]
    return kept
