"""Matrix products, accumulated in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tileops.backend import TensorSpec
from torch import Tensor

LARGEST = 1 << 31
"""Elements that a factor may have."""


def build_gemm(
    a: TensorSpec, b: TensorSpec, *, trans_a: bool, trans_b: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """A kernel for factors of these shapes and dtypes.

    Raises:
        ValueError: a factor is larger than the target serves.
    """
    for name, factor in (("a", a), ("b", b)):
        if torch.Size(factor.shape).numel() > LARGEST:
            raise ValueError(f"{name} has the shape {factor.shape}, more than {LARGEST} elements")

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        left, right = a.mT if trans_a else a, b.mT if trans_b else b
        return (left.float() @ right.float()).to(a.dtype)

    return kernel
