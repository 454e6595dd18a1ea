"""Sampling ops: filters of logits, which compose, and draws with explicit random state."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tileops._core.op import Op
from tileops.sampling.kernels import (
    LogitMaskCall,
    LogitMaskFwdInterface,
    LogitMaskPortableKernel,
    LogitMaskRadixKernel,
    MinPMaskCall,
    MinPMaskFwdInterface,
    MinPMaskPortableKernel,
    MinPMaskTileKernel,
    SamplingCall,
    SamplingFwdInterface,
    SamplingPortableKernel,
    SamplingTileKernel,
    sharing,
)

__all__ = [
    "TopKMaskFwdOp",
    "MinPMaskFwdOp",
    "TopPMaskFwdOp",
    "TopKTopPMaskFwdOp",
    "SamplingFromProbsFwdOp",
]


def _rows(logits: Tensor) -> dict[str, Any]:
    """What call specs say of rows on an accelerator."""
    if not logits.is_cuda:
        return {}
    return {"n": logits.shape[1], "blocks": sharing(*logits.shape)}


class _LogitMaskOp(Op):
    """Sets improbable logits to -inf."""

    kernel_types = {"radix": LogitMaskRadixKernel, "portable": LogitMaskPortableKernel}
    interfaces = {"logit_mask": LogitMaskFwdInterface}

    def _mask(self, logits: Tensor, k: Tensor | None, p: Tensor | None) -> Tensor:
        """Filter by rank, then by probability."""
        has = k is not None, p is not None
        call = LogitMaskCall(*has, logits.dtype, **_rows(logits), device=logits.device)
        settings = (None if setting is None else setting.contiguous() for setting in (k, p))
        return self.kernel_for("logit_mask", call)(logits.contiguous(), *settings)


class TopKMaskFwdOp(_LogitMaskOp):
    """Keep the `k` largest logits of each row and all that equal the last of them.

    `k` is positive; from the row's length on it leaves the row untouched. Below, a NaN counts as
    larger than all numbers, and is masked.

    Source: FlashInfer's `top_k_mask_logits`.
    """

    def forward(self, logits: Tensor, k: Tensor) -> Tensor:
        """Filter `logits`."""
        return self._mask(logits, k, None)


class MinPMaskFwdOp(Op):
    """Keep the logits of each row that are at least `max + log(min_p)`, compared in float32.

    `min_p = 0` masks nothing, `min_p = 1` keeps the maxima only.

    Source: min-p sampling as vLLM has it.
    """

    kernel_types = {"rows": MinPMaskTileKernel, "portable": MinPMaskPortableKernel}
    interfaces = {"min_p_mask": MinPMaskFwdInterface}

    def forward(self, logits: Tensor, min_p: Tensor) -> Tensor:
        """Filter `logits`."""
        call = MinPMaskCall(logits.dtype, **_rows(logits), device=logits.device)
        kernel = self.kernel_for("min_p_mask", call)
        return kernel(logits.contiguous(), min_p.contiguous())


class TopPMaskFwdOp(_LogitMaskOp):
    """Keep each logit while the total probability of strictly larger ones is less than `p`.

    Equal logits stay or go together; `p = 0` masks the whole row, `p = 1` leaves it untouched.
    Sums of probabilities are float32 or wider. A row whose softmax is not a number, since it holds
    a NaN or infinity or nothing but -inf, is masked whole where `p < 1`.

    Source: FlashInfer's `top_p_renorm_probs`, on logits.
    """

    def forward(self, logits: Tensor, p: Tensor) -> Tensor:
        """Filter `logits`."""
        return self._mask(logits, None, p)


class TopKTopPMaskFwdOp(_LogitMaskOp):
    """`TopPMaskFwdOp` on what `TopKMaskFwdOp` leaves, with probabilities over the survivors.

    Source: FlashInfer's `top_k_mask_logits` and `top_p_renorm_probs`.
    """

    def forward(self, logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
        """Filter `logits`."""
        return self._mask(logits, k, p)


class SamplingFromProbsFwdOp(Op):
    """Draw a place of each row with probability in proportion to its weight.

    It is the first whose running sum exceeds `u` times the row's sum, `u` in `[0, 1)` being drawn
    by Philox4x32-10 from `seed`, `offset` and the row's number: the same state gives the same draw
    of a row, whatever the other rows hold. Weights below 0 count as 0, which is never drawn; a row
    without any other gives its last place.

    Source: FlashInfer's `sampling_from_probs`.
    """

    kernel_types = {"rows": SamplingTileKernel, "portable": SamplingPortableKernel}
    interfaces = {"sampling": SamplingFwdInterface}

    def forward(self, probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        """Draw from every row of `probs`."""
        n = probs.shape[1] if probs.is_cuda else None
        kernel = self.kernel_for("sampling", SamplingCall(n, device=probs.device))
        return kernel(probs.contiguous(), seed, offset)
