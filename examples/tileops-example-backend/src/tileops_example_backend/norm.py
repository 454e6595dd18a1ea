"""RMSNorm: one pass for the lengths of the rows, one that scales them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from tileops.backend import TensorSpec
from torch import Tensor

EPSILON = 2.0**-23
"""What the op means by `eps=None`: machine epsilon of float32."""


def build_rms_norm(
    x: TensorSpec,
    weight: TensorSpec | None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None,
) -> Callable[[Tensor, Tensor | None], Tensor]:
    """A kernel for inputs of these shapes and dtypes.

    Args:
        x: device, dtype and shape of the input.
        weight: those of the weight, None when calls pass none.
        normalized_shape: the trailing axes that are normalised.
        eps: added to the mean of squares.
    """
    n = prod(normalized_shape)
    epsilon = EPSILON if eps is None else eps

    def kernel(x: Tensor, weight: Tensor | None) -> Tensor:
        rows = x.view(-1, n)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float32)
        scaled = rows * torch.rsqrt(length.square() / n + epsilon)
        if weight is not None:
            scaled *= weight.view(n)
        return scaled.to(x.dtype).view(x.shape)

    return kernel
