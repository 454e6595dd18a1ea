"""Times routed layers and their parts at the published shapes on a CUDA device.

    python benchmarks/measure_moe.py --published TIMES.csv --out FOLDER [--build] [--only WORD]

Ops run as users call them, captured in CUDA graphs; the clock is that of `tileops bench`, which
empties the L2 cache before each call. `--build` only compiles what the times need, by calls of the
same kernels on narrow rows. Writes `moe.txt`: microseconds, and the better of the published times
over ours.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tileops.bench.clock import captured, race
from tileops.moe import (
    ContiguousLayoutSpec,
    FusedMoEExpertsFwdOp,
    FusedMoEFwdOp,
    MoEGroupedGemmFwdOp,
    MoEPermuteAlignFwdOp,
    MoEPostPermuteFwdOp,
    MoEPrePermuteFwdOp,
)

BF16 = torch.bfloat16
CUDA = torch.device("cuda")
TIGHT = ContiguousLayoutSpec.tight_physical_psum()


def draw(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=CUDA).normal_(0, scale)


def ids_of(tokens: int, top_k: int, experts: int) -> Tensor:
    scores = torch.rand(tokens, experts, device=CUDA)
    return scores.topk(top_k, -1).indices.int()


def weights_of(experts: int, hidden: int, width: int) -> tuple[Tensor, Tensor]:
    up = draw(experts, 2 * width, hidden, scale=hidden**-0.5)
    return up, draw(experts, hidden, width, scale=width**-0.5)


def fused(dims: dict[str, Any], hidden: int, width: int) -> tuple[Any, tuple[Any, ...]]:
    tokens, experts = dims["num_tokens"], dims["num_experts"]
    if "scoring_func" not in dims:
        op: Any = FusedMoEExpertsFwdOp()
        ids = ids_of(tokens, dims["top_k"], experts)
        weights = torch.rand(ids.shape, device=CUDA)
        routes = weights_of(experts, hidden, width)
        return op, (draw(tokens, hidden), draw(tokens, hidden), *routes, weights, ids)
    names = ("top_k", "scoring_func", "renormalize")
    op = FusedMoEFwdOp(*(dims[name] for name in names), dims.get("routed_scaling_factor", 1.0))
    gating = draw(tokens, experts, dtype=torch.float32)
    bias = draw(experts, dtype=torch.float32) if "correction_bias_shape" in dims else None
    return op, (draw(tokens, hidden), gating, *weights_of(experts, hidden, width), bias)


def product(dims: dict[str, Any], n: int, k: int, gated: bool) -> tuple[Any, tuple[Any, ...]]:
    op = MoEGroupedGemmFwdOp(TIGHT, activation="silu_and_mul" if gated else None)
    rows, experts = dims["numel"], dims["num_experts"]
    ends = torch.arange(1, experts + 1, device=CUDA, dtype=torch.int32) * (rows // experts)
    return op, (draw(rows, k), draw(experts, n * (1 + gated), k, scale=k**-0.5), ends)


def pre_permute(dims: dict[str, Any], hidden: int) -> tuple[Any, tuple[Any, ...]]:
    (tokens, _), experts = dims["hidden_states_shape"], dims["num_experts"]
    ids = ids_of(tokens, dims["topk_ids_shape"][1], experts)
    return MoEPrePermuteFwdOp(TIGHT, experts), (draw(tokens, hidden), ids)


def post_permute(dims: dict[str, Any], hidden: int) -> tuple[Any, tuple[Any, ...]]:
    tokens, top_k = dims["total_tokens"], dims["top_k"]
    places = torch.randperm(tokens * top_k, device=CUDA).int()
    weights = torch.rand(tokens, top_k, device=CUDA)
    return MoEPostPermuteFwdOp(TIGHT), (draw(tokens * top_k, hidden), weights, places)


def align(dims: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    experts = dims["num_experts"]
    ids = ids_of(dims["total_tokens"], dims["top_k"], experts)
    return MoEPermuteAlignFwdOp(experts, dims["block_size"]), (ids,)


def made(published: str, dims: dict[str, Any], build: bool) -> tuple[Any, tuple[Any, ...]] | None:
    """Op and inputs of a published row; to build its kernels, on narrow rows."""
    hidden, width = (128, 64) if build else (7168, 2048)
    if published.startswith("FusedMo"):
        return fused(dims, hidden, width)
    if published == "MoeGateUpFwdOp":
        return product(dims, width, hidden, True)
    if published == "MoeGroupedGemmNopadFwdOp":
        return product(dims, hidden, width, False)
    if published == "MoePermuteNopadFwdOp":
        return pre_permute(dims, 128 if build else dims["hidden_states_shape"][1])
    if published == "MoeUnpermuteFwdOp":
        return post_permute(dims, 128 if build else dims["hidden_size"])
    return align(dims) if published == "MoePermuteAlignFwdOp" else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for row in csv.DictReader(args.published.open()):
        name = f"{row['op']} {row['case']}"
        call = made(row["op"], json.loads(row["dims"]), args.build) if args.only in name else None
        if call is None:
            continue
        op, inputs = call
        op(*inputs)
        torch.cuda.synchronize()
        if args.build:
            continue
        graph = captured(lambda turn, op=op, inputs=inputs: op(*inputs), 1)
        found = race({"ours": graph}, CUDA, args.seconds)["ours"]
        ours = found.median * 1e6
        times = (row["peer_tileops_ms"], row["best_other_ms"])
        best = min(float(time) * 1e3 for time in times if time)
        line = f"{name:75s} {ours:9.1f} us  published {best:9.1f}  ratio {best / ours:.3f}"
        print(line, flush=True)
        with (args.out / "moe.txt").open("a") as file:
            file.write(line + "\n")
        del op, inputs, call, graph
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
