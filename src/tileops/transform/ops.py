"""Transform ops: rows of the last axis, handed to one kernel interface."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops.transform.kernels import (
    HadamardCall,
    HadamardFwdInterface,
    HadamardPortableKernel,
)

__all__ = ["HadamardTransformFwdOp"]


class HadamardTransformFwdOp(Op):
    """Walsh-Hadamard transform of the last axis, orthonormal: `x @ H.T / sqrt(n)`.

    `H(2 m) = [[H(m), H(m)], [H(m), -H(m)]]`, down to the matrix of order `base_order`, so that
    the base stands on the right of the Kronecker product. For `base_order = 1` the transform is
    its own inverse. The matrices of the other orders are Paley's: with `chi(a)` 1 for squares
    modulo a prime `q`, -1 for others, 0 for multiples, and `Q[i, j] = chi(i - j)`, orders 12 and
    20 are `I + [[0, 1], [-1, Q]]` for `q` = 11 and 19; order 28 is the Kronecker product of
    `[[0, 1], [1, Q]]` for `q` = 13 with `[[1, 1], [1, -1]]`, plus that of `I` with
    `[[1, -1], [-1, -1]]`; order 40 is the doubled matrix of order 20. Sums are float32, rounded
    once.

    Source: Sylvester, 1867; Paley, "On Orthogonal Matrices", 1933.
    """

    kernel_types = {"portable": HadamardPortableKernel}
    interfaces = {"hadamard": HadamardFwdInterface}

    def __init__(self, base_order: int = 1, *, target: str | None = None) -> None:
        self.base_order = base_order
        super().__init__(target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Transform the last axis of `x`."""
        n = x.shape[-1]
        call = HadamardCall(n, self.base_order, x.dtype, device=x.device)
        return self.kernel_for("hadamard", call)(x.reshape(-1, n).contiguous()).view(x.shape)
