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
