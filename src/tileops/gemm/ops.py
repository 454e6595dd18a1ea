"""Matrix products, accumulated in float32 and rounded once."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.gemm.kernels import (
    BmmCall,
    BmmFP8Call,
    BmmFP8FwdInterface,
    BmmFP8PipelinedKernel,
    BmmFP8PortableKernel,
    BmmFwdInterface,
    BmmPipelinedKernel,
    BmmPortableKernel,
    GemmCall,
    GemmFp8Call,
    GemmFp8FwdInterface,
    GemmFp8PipelinedKernel,
    GemmFp8PortableKernel,
    GemmFwdInterface,
    GemmInt8W8A8Call,
    GemmInt8W8A8FwdInterface,
    GemmInt8W8A8PortableKernel,
    GemmPipelinedKernel,
    GemmPortableKernel,
    GemmSplitKernel,
    GemmW4A16Call,
    GemmW4A16FewRowsKernel,
    GemmW4A16FwdInterface,
    GemmW4A16PortableKernel,
    GemmW4A16SplitKernel,
    GemvKernel,
    GroupedGemmCall,
    GroupedGemmFwdInterface,
    GroupedGemmPipelinedKernel,
    GroupedGemmPortableKernel,
    packing,
)

__all__ = [
    "GemmFwdOp",
    "GemmBwdOp",
    "GemmFp8FwdOp",
    "GemmW4A16FwdOp",
    "GroupedGemmFwdOp",
    "GemmInt8W8A8FwdOp",
    "BmmFwdOp",
    "BmmBwdOp",
    "BmmFP8FwdOp",
]


class _ContractionOp(Op):
    """An op whose FLOPs are multiply-adds of operands of dtype `T`."""

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])


def _as_stored(matrix: Tensor, transposed: bool) -> tuple[Tensor, bool]:
    """A transposed view of contiguous memory as that memory, the layout turned: nothing to copy."""
    if matrix.is_contiguous():
        return matrix, transposed
    turned = matrix.mT
    return (turned, not transposed) if turned.is_contiguous() else (matrix, transposed)


class _GemmOp(_ContractionOp):
    """Products of two matrices, either one stored transposed."""

    interfaces = {"gemm": GemmFwdInterface}

    def __init__(
        self, trans_a: bool = False, trans_b: bool = True, *, target: str | None = None
    ) -> None:
        self.trans_a = trans_a
        self.trans_b = trans_b
        super().__init__(target=target)

    def _product(self, a: Tensor, trans_a: bool, b: Tensor, trans_b: bool) -> Tensor:
        """`A @ B` of matrices stored as `trans_a` and `trans_b` say."""
        m, k = a.shape
        if trans_a:
            m, k = k, m
        n = b.shape[0 if trans_b else 1]
        a, trans_a = _as_stored(a, trans_a)
        b, trans_b = _as_stored(b, trans_b)
        kernel = self.kernel_for_fields(
            "gemm", GemmCall, a.device, m, n, k, trans_a, trans_b, a.dtype
        )
        return kernel(a, b)


class GemmFwdOp(_GemmOp):
    """Matrix product; by default the second factor is a weight `[N, K]` (NT).

    Axes before the matrix are flattened by the caller: `x.flatten(0, -2)`.

    Source: `torch.matmul` of two matrices.
    """

    kernel_types = {
        "gemv": GemvKernel,
        "split": GemmSplitKernel,
        "pipelined": GemmPipelinedKernel,
        "portable": GemmPortableKernel,
    }

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply `a` and `b`."""
        return self._product(a, self.trans_a, b, self.trans_b)


class GemmBwdOp(_GemmOp):
    """Gradients of `GemmFwdOp`, two products by the same kernels: returns `(grad_a, grad_b)`.

    `grad_out` is multiplied by the other factor, and the result has the layout of the factor whose
    gradient it is. Source: the derivative of `torch.matmul`.
    """

    kernel_types = {"pipelined": GemmPipelinedKernel, "portable": GemmPortableKernel}

    def forward(self, grad_out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the gradients."""
        if self.trans_a:
            grad_a = self._unless_empty(a, b, self.trans_b, grad_out, True)
        else:
            grad_a = self._unless_empty(a, grad_out, False, b, not self.trans_b)
        if self.trans_b:
            grad_b = self._unless_empty(b, grad_out, True, a, self.trans_a)
        else:
            grad_b = self._unless_empty(b, a, not self.trans_a, grad_out, False)
        return grad_a, grad_b

    def _unless_empty(
        self, factor: Tensor, a: Tensor, trans_a: bool, b: Tensor, trans_b: bool
    ) -> Tensor:
        """The product that is the gradient of `factor`; no kernel gives an empty one."""
        if not factor.numel():
            return torch.empty(factor.shape, dtype=factor.dtype, device=factor.device)
        return self._product(a, trans_a, b, trans_b)


class GemmFp8FwdOp(_ContractionOp):
    """Matrix product of float8 codes, `(scale_a * a) @ (scale_b * b).T + bias`.

    Scales serve whole tensors, or runs of 128 along each row of `a` with runs or tiles of 128 by
    128 of `b`. They apply within blocks, before these are added up; sums and bias are float32.
    Source: `torch._scaled_mm`, DeepGEMM.
    """

    kernel_types = {"pipelined": GemmFp8PipelinedKernel, "portable": GemmFp8PortableKernel}
    interfaces = {"gemm_fp8": GemmFp8FwdInterface}

    def __init__(
        self, out_dtype: torch.dtype = torch.bfloat16, *, target: str | None = None
    ) -> None:
        self.out_dtype = out_dtype
        super().__init__(target=target)

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        scale_a: Tensor,
        scale_b: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Multiply `a` and `b`."""
        (m, k), n = a.shape, b.shape[0]
        whole = scale_a.shape == scale_b.shape == (1, 1)
        by_row = scale_b.shape[0] == n
        call = GemmFp8Call(
            m=m,
            n=n,
            k=k,
            scales_a="tensor" if whole else "row_block",
            scales_b="tensor" if whole else "row_block" if by_row else "tile",
            has_bias=bias is not None,
            dtype=a.dtype,
            out_dtype=self.out_dtype,
            device=a.device,
        )
        return self.kernel_for("gemm_fp8", call)(a, b, scale_a, scale_b, bias)


class GemmW4A16FwdOp(_ContractionOp):
    """Matrix product with a weight of 4-bit codes, `activation @ ((q - zero) * scale).T`.

    Columns share a scale and a zero point by groups. Two codes fill a byte in the order that
    `repack` makes of the plain one, low half before high; `INT4QuantPerGroupFwdOp` makes it too.
    Sums are float32 and rounded once.
    """

    kernel_types = {
        "few_rows": GemmW4A16FewRowsKernel,
        "split": GemmW4A16SplitKernel,
        "portable": GemmW4A16PortableKernel,
    }
    interfaces = {"gemm_w4a16": GemmW4A16FwdInterface}

    repack = staticmethod(packing.repack)
    unrepack = staticmethod(packing.unrepack)

    def __init__(self, group_size: int = 128, *, target: str | None = None) -> None:
        self.group_size = group_size
        super().__init__(target=target)

    def forward(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Multiply by the weight."""
        (m, k), n = activation.shape, packed_weight.shape[0]
        facts = (m, n, k, self.group_size, activation.dtype)
        kernel = self.kernel_for_fields("gemm_w4a16", GemmW4A16Call, activation.device, *facts)
        return kernel(activation, packed_weight, weight_scale, weight_zero)


class GroupedGemmFwdOp(_ContractionOp):
    """A matrix product for each group of rows, `out[r] = a[r] @ b[g].T`.

    Without `transpose_b` the factors are stored as they multiply. With `transpose_a` the product
    runs over a group's rows, `out[g] = a[r].T @ b[r]`: the gradient of the factors. Sums are
    float32 and rounded once.
    """

    kernel_types = {
        "pipelined": GroupedGemmPipelinedKernel,
        "portable": GroupedGemmPortableKernel,
    }
    interfaces = {"grouped_gemm": GroupedGemmFwdInterface}

    def __init__(
        self, transpose_a: bool = False, transpose_b: bool = True, *, target: str | None = None
    ) -> None:
        self.transpose_a = transpose_a
        self.transpose_b = transpose_b
        super().__init__(target=target)

    def forward(self, a: Tensor, b: Tensor, batch_sizes: Tensor, batch_offsets: Tensor) -> Tensor:
        """Multiply each group."""
        rows, inner = a.shape
        first, last = b.shape[-2:] if self.transpose_b else b.shape[:-3:-1]
        call = GroupedGemmCall(
            groups=batch_sizes.shape[0],
            rows=rows,
            n=inner if self.transpose_a else first,
            k=first if self.transpose_a else last,
            transpose_a=self.transpose_a,
            transpose_b=self.transpose_b,
            dtype=a.dtype,
            device=a.device,
        )
        return self.kernel_for("grouped_gemm", call)(a, b, batch_sizes, batch_offsets)


class GemmInt8W8A8FwdOp(Op):
    """Matrix product of int8 codes, `scale_a * scale_b * (a @ b.T) + bias`.

    Sums are integers, scales and bias float32, and the result is rounded once. A scale serves a
    whole tensor, each row of `a`, or each row of `b`.
    """

    kernel_types = {"portable": GemmInt8W8A8PortableKernel}
    interfaces = {"gemm_int8_w8a8": GemmInt8W8A8FwdInterface}

    def __init__(
        self, out_dtype: torch.dtype = torch.bfloat16, *, target: str | None = None
    ) -> None:
        self.out_dtype = out_dtype
        super().__init__(target=target)

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        scale_a: Tensor,
        scale_b: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Multiply `a` and `b`."""
        (m, k), n = a.shape, b.shape[0]
        call = GemmInt8W8A8Call(
            m=m,
            n=n,
            k=k,
            rows_scaled=scale_a.shape[0] > 1,
            columns_scaled=scale_b.shape[1] > 1,
            has_bias=bias is not None,
            out_dtype=self.out_dtype,
            device=a.device,
        )
        return self.kernel_for("gemm_int8_w8a8", call)(a, b, scale_a, scale_b, bias)

    def roof_key(self) -> str:
        """The tensor-core unit of int8 products."""
        return tensor_core("int8")


class _BmmOp(_ContractionOp):
    """Products of two equally long runs of matrices."""

    kernel_types = {"pipelined": BmmPipelinedKernel, "portable": BmmPortableKernel}
    interfaces = {"bmm": BmmFwdInterface}

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        """`a[i] @ b[i]` for each `i`."""
        (batch, m, k), n = a.shape, b.shape[2]
        a, trans_a = _as_stored(a, False)
        b, trans_b = _as_stored(b, False)
        facts = (m, n, k, trans_a, trans_b, a.dtype, batch)
        return self.kernel_for_fields("bmm", BmmCall, a.device, *facts)(a, b)


class BmmFwdOp(_BmmOp):
    """Batched matrix product (matmul) of 3-d tensors, without broadcasting.

    Source: `torch.bmm`.
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair of matrices."""
        return self._product(a, b)


class BmmBwdOp(_BmmOp):
    """Gradients of `BmmFwdOp`, two products by the same kernels: returns `(grad_a, grad_b)`.

    Source: the derivative of `torch.bmm`.
    """

    def forward(self, grad_out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the gradients."""
        grad_a = self._product(grad_out, b.mT) if a.numel() else torch.empty_like(a)
        grad_b = self._product(a.mT, grad_out) if b.numel() else torch.empty_like(b)
        return grad_a, grad_b


class BmmFP8FwdOp(_ContractionOp):
    """Batched matrix product of float8 codes, `scale_a * scale_b * (a @ b)`.

    Sums and scales are float32, and the result is rounded once. Source: FlashInfer's `bmm_fp8`.
    """

    kernel_types = {"pipelined": BmmFP8PipelinedKernel, "portable": BmmFP8PortableKernel}
    interfaces = {"bmm_fp8": BmmFP8FwdInterface}

    def __init__(
        self,
        out_dtype: torch.dtype = torch.bfloat16,
        trans_b: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.out_dtype = out_dtype
        self.trans_b = trans_b
        super().__init__(target=target)

    def forward(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        """Multiply each pair of matrices."""
        batch, m, k = a.shape
        n = b.shape[1 if self.trans_b else 2]
        facts = (m, n, k, self.trans_b, a.dtype, self.out_dtype, batch)
        call = BmmFP8Call(*facts, device=a.device)
        return self.kernel_for("bmm_fp8", call)(a, b, scale_a, scale_b)
