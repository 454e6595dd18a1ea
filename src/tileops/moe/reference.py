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


def fused_topk(
    gating_output: Tensor,
    correction_bias: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """The best experts of each token; scores are float32, of equal ones the lower id is first."""
    logits = gating_output.float()
    scores = torch.softmax(logits, 1) if scoring_func == "softmax" else torch.sigmoid(logits)
    ranked = scores if correction_bias is None else scores + correction_bias
    ids = torch.argsort(ranked, dim=1, descending=True, stable=True)[:, :top_k]
    weights = scores.gather(1, ids).double()
    if renormalize:
        weights = weights / weights.sum(1, keepdim=True).clamp(min=1e-20)
    return weights.float(), ids.int()


def fused_topk_canonical(
    results: tuple[Tensor, Tensor],
    gating_output: Tensor,
    correction_bias: Tensor | None = None,
    *,
    scoring_func: str = "softmax",
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, and for the ids what they were selected by, with how many of a row differ."""
    weights, ids = results
    logits = gating_output.float()
    scores = torch.softmax(logits, 1) if scoring_func == "softmax" else torch.sigmoid(logits)
    ranked = scores if correction_bias is None else scores + correction_bias
    distinct = torch.tensor([len(set(row)) for row in ids.tolist()])
    return weights, ranked.gather(1, ids.long()), distinct


def moe_permute_align(
    topk_ids: Tensor, *, num_experts: int, block_size: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    """Routes grouped by expert in blocks; what lies beyond them is `T * K` and 0."""
    flat = topk_ids.flatten().tolist()
    buckets: list[list[int]] = [[] for _ in range(num_experts + 1)]
    for route, expert in enumerate(flat):
        buckets[expert if 0 <= expert < num_experts else num_experts].append(route)
    routes: list[int] = []
    owners: list[int] = []
    for expert, members in enumerate(buckets):
        blocks = -(-len(members) // block_size)
        routes += members + [len(flat)] * (blocks * block_size - len(members))
        owners += [expert] * blocks
    capacity = len(flat) + (num_experts + 1) * (block_size - 1)
    tail = -(-capacity // block_size) - len(owners)
    return (
        torch.tensor(routes + [len(flat)] * (capacity - len(routes)), dtype=torch.int32),
        torch.tensor(owners + [0] * tail, dtype=torch.int32),
        torch.tensor([len(routes)], dtype=torch.int32),
    )


def moe_permute_align_canonical(
    results: tuple[Tensor, Tensor, Tensor],
    topk_ids: Tensor,
    *,
    num_experts: int,
    block_size: int = 64,
) -> tuple[Tensor, Tensor, Tensor]:
    """Routes of an expert ascend, what lies beyond the groups is 0."""
    routes, owners, total = (result.clone() for result in results)
    used = int(total)
    of_route = owners.repeat_interleave(block_size)[:used]
    by_route = torch.argsort(routes[:used], stable=True)
    order = by_route[torch.argsort(of_route[by_route], stable=True)]
    routes[:used] = routes[:used][order]
    routes[used:] = 0
    owners[used // block_size :] = 0
    return routes, owners, total


def moe_pre_permute(
    hidden_states: Tensor, local_expert_ids: Tensor, *, layout: Any, num_local_experts: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Token rows in the order of their experts; padding rows are 0."""
    owners, alignment = local_expert_ids.flatten().tolist(), layout.alignment
    inverse = [0] * len(owners)
    ends: list[int] = []
    row_owners: list[int] = []
    for expert in range(num_local_experts):
        members = [route for route, owner in enumerate(owners) if owner == expert]
        start = len(row_owners)
        for place, route in enumerate(members):
            inverse[route] = start + place
        ends.append(start + len(members))
        row_owners += [expert] * (-(-len(members) // alignment) * alignment)
    spare = min(len(owners), num_local_experts) * (alignment - 1)
    rows = (len(owners) + spare) // alignment * alignment
    row_owners += [num_local_experts] * (rows - len(row_owners))
    expert_input = hidden_states.new_zeros(rows, hidden_states.shape[1])
    top_k = local_expert_ids.shape[1]
    for route, row in enumerate(inverse):
        expert_input[row] = hidden_states[route // top_k]
    metadata = row_owners if layout.metadata_kind == "per_row" else ends
    return expert_input, torch.tensor(metadata).int(), torch.tensor(inverse).int()


def moe_pre_permute_canonical(
    results: tuple[Tensor, Tensor, Tensor], _: Tensor, local_expert_ids: Tensor, **__: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The row of each route; and for the free rows of an expert, its routes in ascending order."""
    expert_input, metadata, inverse = results
    owners = local_expert_ids.flatten()
    by_row = torch.argsort(inverse, stable=True)
    rows = inverse[by_row[torch.argsort(owners[by_row], stable=True)]]
    ordered = torch.empty_like(inverse)
    ordered[torch.argsort(owners, stable=True)] = rows
    return expert_input[inverse.long()], metadata, ordered


def moe_post_permute(
    expert_output: Tensor,
    topk_weights: Tensor,
    inverse_indices: Tensor,
    *,
    layout: Any,
    epilogue: Any = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Each route's row weighted, summed over a token's routes, and scaled."""
    rows = expert_output.reshape(-1, expert_output.shape[-1]).double()
    scale = 1.0 if epilogue is None else epilogue.routed_scaling_factor
    routes = rows[inverse_indices.long()].view(*topk_weights.shape, rows.shape[1])
    total = torch.einsum("tkh,tk->th", routes, topk_weights.double()) * scale
    return total.to(out_dtype or expert_output.dtype)


def fused_moe_experts(
    output: Tensor,
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> None:
    """`factor * Σ_k weight[t, k] * mlp_{id[t, k]}(x[t])` into `output`."""
    total = torch.zeros(hidden_states.shape, dtype=torch.float64)
    for expert in topk_ids.unique().tolist():
        tokens, places = (topk_ids == expert).nonzero(as_tuple=True)
        y = hidden_states[tokens].double() @ w_gate_up[expert].double().T
        rows = _gated(y, activation) @ w_down[expert].double().T
        total.index_add_(0, tokens, topk_weights[tokens, places, None].double() * rows)
    output.copy_(total * routed_scaling_factor)


def indexed_expert_mlp(
    output: Tensor,
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    routed_scaling_factor: float = 1.0,
) -> None:
    """What `fused_moe_experts` gives with silu."""
    tensors = hidden_states, w_gate_up, w_down, topk_weights, topk_ids
    fused_moe_experts(output, *tensors, routed_scaling_factor=routed_scaling_factor)


def indexed_expert_mlp_tamed(inputs: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
    """Tokens so short that gated products of normal weights stay within float16."""
    tokens = inputs["hidden_states"]
    return {**inputs, "hidden_states": tokens * max(tokens.shape[-1], 1) ** -0.5}


def fused_moe(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> Tensor:
    """Routing, experts, weighted sum."""
    weights, ids = fused_topk(
        gating_output,
        correction_bias,
        top_k=top_k,
        scoring_func=scoring_func,
        renormalize=renormalize,
    )
    output = torch.empty_like(hidden_states)
    fused_moe_experts(
        output,
        hidden_states,
        w_gate_up,
        w_down,
        weights,
        ids,
        routed_scaling_factor=routed_scaling_factor,
        activation=activation,
    )
    return output


def fused_moe_shared_expert(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    shared_w_gate_up: Tensor | None = None,
    shared_w_down: Tensor | None = None,
    *,
    tp_size: int = 1,
    tp_rank: int = 0,
    **routing: Any,
) -> tuple[Tensor | None, Tensor]:
    """The routed layer, and this rank's shard of the shared expert."""
    tensors = hidden_states, gating_output, w_gate_up, w_down, correction_bias
    routed = fused_moe(*tensors, **routing)
    if shared_w_gate_up is None or shared_w_down is None:
        return None, routed
    gate, up = (part.chunk(tp_size)[tp_rank] for part in shared_w_gate_up.chunk(2))
    own = shared_w_down.chunk(tp_size, 1)[tp_rank]
    return shared_expert_mlp(hidden_states, torch.cat((gate, up)), own), routed
