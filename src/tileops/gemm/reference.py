"""References of the gemm family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

from torch import Tensor


def gemm(a: Tensor, b: Tensor, *, trans_a: bool = False, trans_b: bool = True) -> Tensor:
    """`A @ B`, either factor stored transposed."""
    left = (a.mT if trans_a else a).double()
    return (left @ (b.mT if trans_b else b).double()).to(a.dtype)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """`a[i] @ b[i]` for each `i`."""
    return (a.double() @ b.double()).to(a.dtype)
