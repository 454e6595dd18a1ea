"""Operation and byte counts of the moe family that depend on which expert gets which rows.

A gated element costs 6 beside the products. A weight that no row meets is not read, and a row of
no expert is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall

_GATED = 6
"""Operations of an activation and the product with its value."""


def moe_grouped_gemm(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of one product for each expert."""
    index = call.indices
    counts = _expert_rows(call)
    rows, n = sum(counts), index["N"]
    gated = index["activation"] is not None
    flops = rows * (2 * index["K"] * (2 * n if gated else n) + (_GATED * n if gated else 0))
    return flops, _reached_bytes(call, counts, rows=("a", "output"), weights=("b",))


def moe_expert_mlp(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the gated layer of each expert."""
    index = call.indices
    counts = _expert_rows(call)
    flops = sum(counts) * _mlp_flops(index["H"], index["F"])
    rows, weights = ("expert_input", "output"), ("w_gate_up", "w_down")
    return flops, _reached_bytes(call, counts, rows=rows, weights=weights)


def rows_written(call: SignatureCall, output: str) -> int:
    """Bytes of those rows of a grouped output that belong to some expert."""
    return _share(call, output, sum(_expert_rows(call)), _rows(call, output))


def _mlp_flops(hidden: int, width: int) -> int:
    """Operations of a gated layer for one row."""
    return 6 * hidden * width + _GATED * width


def _expert_rows(call: SignatureCall) -> list[int]:
    """The number of rows of each expert."""
    layout, contents = call.indices["layout"], call.metadata_values("layout_metadata")
    if layout.kind == "masked":
        return contents
    experts = call.indices["E"]
    if layout.metadata_kind == "per_row":
        counts = {expert: len(list(run)) for expert, run in groupby(contents)}
        return [counts.get(expert, 0) for expert in range(experts)]
    return list(_between_ends(contents, layout.alignment))


def _between_ends(ends: Iterable[int], alignment: int) -> Iterator[int]:
    """Rows of experts that end there and start at multiples of the alignment."""
    start = 0
    for end in ends:
        yield end - start
        start = -(-end // alignment) * alignment


def _reached_bytes(
    call: SignatureCall, counts: list[int], *, rows: Iterable[str], weights: Iterable[str]
) -> int:
    """All bytes less the rows of no expert and the weights of experts without rows."""
    idle = sum(count == 0 for count in counts)
    unread = sum(_share(call, name, idle, len(counts)) for name in weights)
    for name in rows:
        extent = _rows(call, name)
        unread += _share(call, name, extent - sum(counts), extent)
    return call.derived_bytes() - unread


def _rows(call: SignatureCall, name: str) -> int:
    """The rows of a grouped operand, those of all slabs together."""
    shape, _ = call.tensors[name]
    return prod(shape[:-1])


def _share(call: SignatureCall, name: str, part: int, whole: int) -> int:
    """Bytes of `part` of `whole` equal parts of a tensor."""
    return call.bytes(name) * part // whole if whole else 0


def moe_post_permute(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the weighted sums; rows that no route names are not read."""
    index = call.indices
    elements = index["T"] * index["H"]
    epilogue = index["epilogue"]
    scaled = epilogue is not None and epilogue.routed_scaling_factor != 1
    rows = _rows(call, "expert_output")
    unread = rows - len(set(call.metadata_values("inverse_indices")))
    flops = elements * (2 * index["K"] + (1 if scaled else 0))
    return flops, call.derived_bytes() - _share(call, "expert_output", unread, rows)


def fused_moe_experts(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the experts of known routes; only weights that a route names are read."""
    named = {expert for row in call.metadata_values("topk_ids") for expert in row}
    flops = _routed_flops(call, call.indices["T"] * call.indices["K"])
    return flops, call.derived_bytes() - _unnamed_bytes(call, len(named))


def fused_moe(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of routing and experts, by the ids that the experts were given.

    Where these are not at hand as many experts count as the routes can name.
    """
    index = call.indices
    routes = index["T"] * index["top_k"]
    named = min(index["E"], routes)
    for record in call.stages.get("routed_experts", ()):
        if "topk_ids" in record.metadata:
            named = len({e for row in record.metadata_values("topk_ids") for e in row})
    flops = _top_k_flops(call) + _routed_flops(call, routes)
    return flops, call.derived_bytes() - _unnamed_bytes(call, named)


def fused_moe_shared_expert(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the routed layer and of this rank's shard of the shared expert."""
    flops, moved = fused_moe(call)
    if not call.present("shared_w_gate_up"):
        return flops, moved
    index = call.indices
    ranks = index["tp_size"]
    flops += index["T"] * _mlp_flops(index["H"], index["S"] // ranks)
    for name in ("shared_w_gate_up", "shared_w_down"):
        moved -= _share(call, name, ranks - 1, ranks)
    return flops, moved


def _routed_flops(call: SignatureCall, routes: int) -> int:
    """Operations of the gated layers, the weighted sums, and their scale."""
    index = call.indices
    elements = index["T"] * index["H"]
    scaled = index["routed_scaling_factor"] != 1
    flops: int = routes * (_mlp_flops(index["H"], index["F"]) + 2 * index["H"])
    return flops + (elements if scaled else 0)


def _top_k_flops(call: SignatureCall) -> int:
    """Operations of routing: scores, bias, selection, and weights."""
    index = call.indices
    experts, top_k, renormalize = index["E"], index["top_k"], index["renormalize"]
    if index["scoring_func"] == "sigmoid":
        score = 4 * experts
    else:
        score = 3 * experts + (0 if renormalize else experts + top_k)
    bias = experts if call.present("correction_bias") else 0
    total: int = index["T"] * (top_k * experts + score + bias + (2 * top_k if renormalize else 0))
    return total


def _unnamed_bytes(call: SignatureCall, named: int) -> int:
    """Bytes of the weights of experts that no route names."""
    experts = call.indices["E"]
    return sum(_share(call, name, experts - named, experts) for name in ("w_gate_up", "w_down"))
