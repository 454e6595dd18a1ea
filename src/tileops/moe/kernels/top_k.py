"""The experts of each token and their weights."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel

Scoring = Literal["softmax", "sigmoid"]

SMALLEST_SUM = 1e-20
"""What weights are divided by at least when they are renormalised."""


@dataclass(frozen=True)
class FusedTopKCall(CallSpec):
    """The `top_k` best of `experts` scores.

    Args:
        experts: number of experts.
        top_k: experts of a token.
        scoring_func: how logits become scores.
        renormalize: whether the weights of a token add up to 1.
        has_bias: whether a bias takes part in the selection.
        dtype: element type of the logits.
    """

    experts: int
    top_k: int
    scoring_func: Scoring
    renormalize: bool
    has_bias: bool
    dtype: torch.dtype


class FusedTopKFwdInterface(KernelInterface):
    """Scores, selection and weights of each token."""

    request = FusedTopKCall

    @abstractmethod
    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Select.

        Scores are float32. The selection is by score plus bias, the weights are the scores alone,
        divided by their sum when `call.renormalize`.

        Args:
            gating_output: `[T, experts]` in `call.dtype`, contiguous; read.
            correction_bias: `[experts]` float32, contiguous, None unless `call.has_bias`; read.

        Returns:
            Weights `[T, top_k]` float32 and ids `[T, top_k]` int32, new and contiguous, by
            descending selection score; equal scores in any order. `T` is positive and varies
            between calls.
        """


class FusedTopKPortableKernel(PortableKernel[FusedTopKCall], FusedTopKFwdInterface):
    """The selection by torch; of equal scores the lower id comes first."""

    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Select."""
        call, logits = self.call, gating_output.float()
        scores = torch.softmax(logits, -1) if call.scoring_func == "softmax" else logits.sigmoid()
        ranked = scores if correction_bias is None else scores + correction_bias
        ids = torch.argsort(ranked, dim=-1, descending=True, stable=True)[:, : call.top_k]
        weights = scores.gather(1, ids)
        if call.renormalize:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=SMALLEST_SUM)
        return weights, ids.to(torch.int32, memory_format=torch.contiguous_format)
