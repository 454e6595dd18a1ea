"""Where tensors begin: device programs access memory in units of 16 bytes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BOUNDARY = 16
"""Bytes of the widest access, and what the copy engine asks of a base address."""


def aligned(tensor: Tensor) -> Tensor:
    """`tensor`, or a copy of it when it does not begin on a 16-byte boundary.

    Allocations begin on one; a contiguous view into a larger tensor may not.
    """
    return tensor if tensor.data_ptr() % BOUNDARY == 0 else tensor.clone()


def widest_access(width: int, dtype: torch.dtype) -> int:
    """Elements of the widest access that divides a row of `width` of them."""
    return math.gcd(BOUNDARY // dtype.itemsize, width)
