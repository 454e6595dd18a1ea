"""Routing and expert layers in plain torch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "FusedTopKFwdOp")
def top_k(op: Any, gating: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = gating.float()
    scores = wide.softmax(-1) if op.scoring_func == "softmax" else wide.sigmoid()
    ids = (scores if bias is None else scores + bias).topk(op.top_k, -1).indices
    weights = scores.gather(1, ids)
    if op.renormalize:
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-20)
    return weights, ids.int()


@baseline("torch", "SharedExpertMLPFwdOp")
def shared(op: Any, x: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    gate, up = (x @ w_gate_up.T).chunk(2, -1)
    return (F.silu(gate) * up) @ w_down.T


@baseline("torch", "MoEGroupedGemmFwdOp")
def grouped_gemm(op: Any, a: Tensor, b: Tensor, metadata: Tensor) -> Tensor:
    """A product for each expert, as ends that lie on the host allow."""
    if op.out_dtype not in {None, a.dtype}:
        raise NotImplementedError("torch rounds a product to the dtype of its factors")
    if op.layout.kind == "masked":
        product = torch.bmm(a, b.mT)
    elif op.layout.metadata_kind == "per_row":
        raise NotImplementedError("torch has no product of rows that name their expert")
    else:
        product = a.new_zeros(len(a), b.shape[1])
        start = 0
        for expert, end in enumerate(metadata.tolist()):
            torch.mm(a[start:end], b[expert].T, out=product[start:end])
            start = -(-end // op.layout.alignment) * op.layout.alignment
    if op.activation is not None:
        gate, up = product.chunk(2, -1)
        product = (F.silu(gate) if op.activation == "silu_and_mul" else F.gelu(gate)) * up
    return product


@baseline("torch", "MoEPostPermuteFwdOp")
def post_permute(op: Any, rows: Tensor, weights: Tensor, inverse: Tensor) -> Tensor:
    routes = rows.flatten(0, -2)[inverse.long()].view(*weights.shape, rows.shape[-1])
    scale = 1.0 if op.epilogue is None else op.epilogue.routed_scaling_factor
    total = (routes.float() * weights[..., None]).sum(1) * scale
    return total.to(op.out_dtype or rows.dtype)
