"""RMSNorm by torch, as the portable kernels of rows and those fused with more share it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.linalg import vector_norm


class RootMeanSquareNorm:
    """`x / sqrt(mean(x²) + eps) * weight` of rows, formed in float32 and rounded once.

    On a CPU torch composes the norm of general parts. Three passes over the rows take less time at
    all sizes, and leave more of the processor's caches to what else a call runs. With `r` the
    length of a row, the root is `hypot(r, sqrt(n * eps)) / sqrt(n)`.

    Args:
        n: elements of a row.
        eps: added to the mean of squares.
    """

    def __init__(self, n: int, eps: float) -> None:
        self._n, self._eps = n, eps
        self._is_plain = eps >= 0
        constants = (math.sqrt(n * eps), 1 / math.sqrt(n)) if self._is_plain else (0.0, 0.0)
        self._leg, self._scale = torch.tensor(constants, dtype=torch.float32, device="cpu")

    def __call__(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalise the last axis of `x`; a new tensor of its dtype."""
        if not (x.is_cpu and self._is_plain) or x.dtype is torch.float64:  # which float32 cuts off
            return F.rms_norm(x, (self._n,), weight, self._eps)
        wide = x.float()
        root = vector_norm(wide, 2, -1, True).hypot_(self._leg).mul_(self._scale)
        normed = torch.div(wide, root)
        if weight is not None:
            normed.mul_(weight)
        return normed.type_as(x)
