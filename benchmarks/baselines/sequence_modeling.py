"""Hyper-connections in plain torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "MHCPostFwdOp")
def mhc_post(op: Any, layer: Tensor, gates: Tensor, stream: Tensor) -> Tensor:
    spread = gates[:, :, None] * layer.float()[:, None]
    return (stream.float() + spread.flatten(1)).to(stream.dtype)
