"""The experts of each token and their weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

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


class FusedTopKWarpKernel(Kernel, FusedTopKFwdInterface):
    """The selection in one pass, a token's scores in the registers of a warp.

    Of equal scores the lower id comes first.

    Args:
        experts: number of experts.
        top_k: experts of a token.
        scoring_func: how logits become scores.
        renormalize: whether the weights of a token add up to 1.
        has_bias: whether a bias takes part in the selection.
        dtype: element type of the logits.
    """

    supported_archs = frozenset({HOPPER})

    MOST_EXPERTS = 1024
    """A lane holds the scores of 32."""
    MOST_SELECTED = 32
    """A lane keeps one."""

    def __init__(
        self,
        experts: int,
        top_k: int,
        scoring_func: Scoring,
        renormalize: bool,
        has_bias: bool,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.experts, self.top_k, self.dtype = experts, top_k, dtype
        self.scoring_func, self.renormalize, self.has_bias = scoring_func, renormalize, has_bias

    @classmethod
    def refusal(cls, call: FusedTopKCall) -> str | None:
        """Refuses more scores or more experts of a token than a warp keeps."""
        if call.experts > cls.MOST_EXPERTS:
            return f"holds the scores of at most {cls.MOST_EXPERTS} experts, not of {call.experts}"
        if call.top_k > cls.MOST_SELECTED:
            return f"selects at most {cls.MOST_SELECTED} experts of a token, not {call.top_k}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: FusedTopKCall) -> tuple[Hashable, Callable[[], FusedTopKWarpKernel]]:
        """One build for each kind of selection and element type."""
        rule = call.scoring_func, call.renormalize, call.has_bias
        constants = (call.experts, call.top_k, *rule, call.dtype)
        return constants, lambda: cls(*constants)

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.moe.programs import Selection, build_top_k

        selection = Selection(
            dtype_name(self.dtype),
            experts=self.experts,
            top_k=self.top_k,
            softmax=self.scoring_func == "softmax",
            renormalize=self.renormalize,
            biased=self.has_bias,
            smallest=SMALLEST_SUM,
        )
        return build_top_k(selection).compile(HOPPER)

    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Select."""
        shape, device = (gating_output.shape[0], self.top_k), gating_output.device
        weights = torch.empty(shape, dtype=torch.float32, device=device)
        ids = torch.empty(shape, dtype=torch.int32, device=device)
        bias = () if correction_bias is None else (aligned(correction_bias),)
        self.program()(aligned(gating_output), *bias, weights, ids)
        return weights, ids
