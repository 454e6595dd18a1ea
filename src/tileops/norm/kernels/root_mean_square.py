"""RMSNorm by torch, as the portable kernels of rows and those fused with more share it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.linalg import vector_norm


class RootMeanSquareNorm:
    """`x / sqrt(mean(x²) + eps) * weight` of rows, formed in float32 and rounded once.

    On a CPU torch composes the norm of general parts; three passes over the rows take half of that
    at most sizes, and leave more of the processor's caches to what else a call runs.

    Args:
        n: elements of a row.
        eps: added to the mean of squares.
    """

    def __init__(self, n: int, eps: float) -> None:
        self._n, self._eps = n, eps
        self._added = torch.full((), eps, dtype=torch.float32, device="cpu")

    def __call__(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise the last axis of `x`; a new tensor of its dtype."""
        if not x.is_cpu:
            return F.rms_norm(x, (self._n,), weight, self._eps)
        wide = x.float()
        length = vector_norm(wide, 2, -1, True)
        scale = torch.addcmul(self._added, length, length, value=1 / self._n).rsqrt_()
        normed = torch.mul(wide, scale)
        if weight is not None:
            normed.mul_(weight)
        return normed.type_as(x)
