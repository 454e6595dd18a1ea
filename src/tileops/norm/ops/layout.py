"""Tensors as kernels of the family take them: rows, channels, vectors; and back again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor

FLOAT32_EPSILON = 2.0**-23
"""Machine epsilon of the arithmetic: what `eps=None` means for every input dtype."""


def as_rows(x: Tensor, n: int) -> Tensor:
    """`x` as contiguous rows of `n` elements; a view where `x` is contiguous."""
    rows = x if x.ndim == 2 and x.shape[1] == n else x.reshape(-1, n)
    return rows.contiguous()


def in_shape_of(rows: Tensor, x: Tensor) -> Tensor:
    """Rows in the shape of `x`."""
    return rows if rows.shape == x.shape else rows.view(x.shape)


def as_vector(affine: Tensor | None) -> Tensor | None:
    """An affine tensor as one contiguous row, or None."""
    if affine is None:
        return None
    return (affine if affine.ndim == 1 else affine.reshape(-1)).contiguous()


def in_shape(vector: Tensor | None, shape: Sequence[int]) -> Any:
    """A gradient in the shape of its affine tensor, None where there is none."""
    return None if vector is None else vector.view(tuple(shape))


def as_channels(x: Tensor) -> Tensor:
    """`x` as contiguous `[B, C, L]`; a view where `x` is contiguous."""
    return x.reshape(*x.shape[:2], prod(x.shape[2:])).contiguous()
