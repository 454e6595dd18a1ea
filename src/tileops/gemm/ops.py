"""Matrix products, accumulated in float32 and rounded once."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.gemm.kernels import (
    BmmCall,
    BmmFwdInterface,
    BmmPortableKernel,
    GemmCall,
    GemmFwdInterface,
    GemmPipelinedKernel,
    GemmPortableKernel,
)

__all__ = ["GemmFwdOp", "BmmFwdOp"]


class _ContractionOp(Op):
    """An op whose FLOPs are multiply-adds of operands of dtype `T`."""

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])


def _as_stored(matrix: Tensor, transposed: bool) -> tuple[Tensor, bool]:
    """A transposed view of contiguous memory as that memory, the layout turned: nothing to copy."""
    if matrix.is_contiguous() or not matrix.mT.is_contiguous():
        return matrix, transposed
    return matrix.mT, not transposed


class GemmFwdOp(_ContractionOp):
    """Matrix product; by default the second factor is a weight `[N, K]` (NT).

    Source: `torch.matmul` of two matrices.
    """

    kernel_types = {"pipelined": GemmPipelinedKernel, "portable": GemmPortableKernel}
    interfaces = {"gemm": GemmFwdInterface}

    def __init__(
        self, trans_a: bool = False, trans_b: bool = True, *, target: str | None = None
    ) -> None:
        self.trans_a = trans_a
        self.trans_b = trans_b
        super().__init__(target=target)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply `a` and `b`."""
        k, m = a.shape if self.trans_a else a.shape[::-1]
        n = b.shape[0 if self.trans_b else 1]
        a, trans_a = _as_stored(a, self.trans_a)
        b, trans_b = _as_stored(b, self.trans_b)
        call = GemmCall(m, n, k, trans_a, trans_b, a.dtype, device=a.device)
        return self.kernel_for("gemm", call)(a, b)


class BmmFwdOp(_ContractionOp):
    """Batched matrix product of 3-d tensors, without broadcasting.

    Source: `torch.bmm`.
    """

    kernel_types = {"portable": BmmPortableKernel}
    interfaces = {"bmm": BmmFwdInterface}

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair of matrices."""
        call = BmmCall(a.shape[1], b.shape[2], a.shape[2], a.dtype, device=a.device)
        return self.kernel_for("bmm", call)(a, b)
