"""Masks of logits in plain torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "TopKMaskFwdOp")
def top_k(op: Any, logits: Tensor, k: Tensor) -> Tensor:
    ordered = logits.sort(-1, descending=True).values
    place = (k.clamp(1, logits.shape[1]).long() - 1)[:, None]
    return logits.masked_fill(logits < ordered.gather(1, place), -torch.inf)


@baseline("torch", "MinPMaskFwdOp")
def min_p(op: Any, logits: Tensor, least: Tensor) -> Tensor:
    wide = logits.float()
    threshold = wide.amax(-1, keepdim=True) + least.log()[:, None]
    return logits.masked_fill(~(wide >= threshold) & (least != 0)[:, None], -torch.inf)


@baseline("torch", "TopPMaskFwdOp")
def top_p(op: Any, logits: Tensor, p: Tensor) -> Tensor:
    ordered, place = logits.sort(-1, descending=True)
    weights = ordered.float().softmax(-1)
    above = weights.cumsum(-1) - weights
    first = torch.searchsorted(-ordered, -ordered.contiguous())
    kept = (above.gather(-1, first) < p[:, None]) | (p[:, None] >= 1)
    keeps = torch.zeros_like(kept).scatter(-1, place, kept)
    return logits.masked_fill(~keeps, -torch.inf)


@baseline("torch", "TopKTopPMaskFwdOp")
def top_k_top_p(op: Any, logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
    ordered, place = logits.sort(-1, descending=True)
    last = (k.clamp(1, logits.shape[1]).long() - 1)[:, None]
    ordered = ordered.masked_fill(ordered < ordered.gather(1, last), -torch.inf)
    weights = ordered.float().softmax(-1)
    above = weights.cumsum(-1) - weights
    first = torch.searchsorted(-ordered, -ordered.contiguous())
    kept = (above.gather(-1, first) < p[:, None]) | (p[:, None] >= 1)
    return torch.empty_like(logits).scatter_(-1, place, ordered.masked_fill(~kept, -torch.inf))
