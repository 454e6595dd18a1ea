"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

import torch
from torch import Tensor

from tileops.gemm import ops as _ops

__all__ = [
    "BmmBwdOp",
    "BmmFP8FwdOp",
    "BmmFwdOp",
    "GemmBwdOp",
    "GemmFp8FwdOp",
    "GemmFwdOp",
    "GemmInt8W8A8FwdOp",
    "GemmW4A16FwdOp",
    "GroupedGemmFwdOp",
]

class BmmBwdOp(_ops.BmmBwdOp):
    """Gradients of `BmmFwdOp`, two products by the same kernels: returns `(grad_a, grad_b)`.

    Source: the derivative of `torch.bmm`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[B, M, N]`
            a: `T[B, M, K]`
            b: `T[B, K, N]`

        Calls return:
            grad_a: `T[B, M, K]`
            grad_b: `T[B, K, N]`
        """

    def __call__(self, grad_out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[B, M, N]`
            a: `T[B, M, K]`
            b: `T[B, K, N]`

        Returns:
            grad_a: `T[B, M, K]`
            grad_b: `T[B, K, N]`

        ∀ B, M, N, K : Dim, T ∈ {float16, bfloat16, float32}
        """

class BmmFP8FwdOp(_ops.BmmFP8FwdOp):
    """Batched matrix product of float8 codes, `scale_a * scale_b * (a @ b)`.

    Sums and scales are float32, and the result is rounded once. Source: FlashInfer's `bmm_fp8`.
    """

    def __init__(
        self,
        out_dtype: torch.dtype = torch.bfloat16,
        trans_b: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            out_dtype: `bfloat16 | float16`, 'bfloat16'
            trans_b: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            a: `T[B, M, K]`
            b: `T BLayout[trans_b, B, K, N]`
            scale_a: `float32[]`
            scale_b: `float32[]`

        Calls return:
            d: `out_dtype[B, M, N]`
        """

    def __call__(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        """Call the op.

        Args:
            a: `T[B, M, K]`
            b: `T BLayout[trans_b, B, K, N]`
            scale_a: `float32[]`
            scale_b: `float32[]`

        Returns:
            d: `out_dtype[B, M, N]`

        ∀ B, M, N, K : Dim, T ∈ {float8_e4m3fn}
        type BLayout[t: Bool, B: Dim, K: Dim, N: Dim] = match t
          false ⇒ [B, K, N]
          true ⇒ [B, N, K]
        """

class BmmFwdOp(_ops.BmmFwdOp):
    """Batched matrix product (matmul) of 3-d tensors, without broadcasting.

    Source: `torch.bmm`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            a: `T[B, M, K]`
            b: `T[B, K, N]`

        Calls return:
            d: `T[B, M, N]`
        """

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Call the op.

        Args:
            a: `T[B, M, K]`
            b: `T[B, K, N]`

        Returns:
            d: `T[B, M, N]`

        ∀ B, M, N, K : Dim, T ∈ {float16, bfloat16, float32}
        """

class GemmBwdOp(_ops.GemmBwdOp):
    """Gradients of `GemmFwdOp`, two products by the same kernels: returns `(grad_a, grad_b)`.

    `grad_out` is multiplied by the other factor, and the result has the layout of the factor whose
    gradient it is. Source: the derivative of `torch.matmul`.
    """

    def __init__(
        self, trans_a: bool = False, trans_b: bool = True, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            trans_a: `bool`, False
            trans_b: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[M, N]`
            a: `T Mat[trans_a, M, K]`
            b: `T Mat[trans_b, K, N]`

        Calls return:
            grad_a: `T Mat[trans_a, M, K]`
            grad_b: `T Mat[trans_b, K, N]`
        """

    def __call__(self, grad_out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[M, N]`
            a: `T Mat[trans_a, M, K]`
            b: `T Mat[trans_b, K, N]`

        Returns:
            grad_a: `T Mat[trans_a, M, K]`
            grad_b: `T Mat[trans_b, K, N]`

        ∀ M, N, K : Dim, T ∈ {float16, bfloat16, float32}
        type Mat[t: Bool, R: Dim, C: Dim] = match t
          false ⇒ [R, C]
          true ⇒ [C, R]
        """

class GemmFp8FwdOp(_ops.GemmFp8FwdOp):
    """Matrix product of float8 codes, `(scale_a * a) @ (scale_b * b).T + bias`.

    Scales serve whole tensors, or runs of 128 along each row of `a` with runs or tiles of 128 by
    128 of `b`. They apply within blocks, before these are added up; sums and bias are float32.
    Source: `torch._scaled_mm`, DeepGEMM.
    """

    def __init__(
        self, out_dtype: torch.dtype = torch.bfloat16, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            out_dtype: `bfloat16 | float16`, 'bfloat16'
            target: what serves the instance; by default the device decides

        Calls take:
            a: `T[M, K]`
            b: `T[N, K]`
            scale_a: `float32[*SA]`
            scale_b: `float32[*SB]`
            bias: `out_dtype[N]`

        Calls return:
            d: `out_dtype[M, N]`
        """

    def __call__(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            a: `T[M, K]`
            b: `T[N, K]`
            scale_a: `float32[*SA]`
            scale_b: `float32[*SB]`
            bias: `out_dtype[N]`

        Returns:
            d: `out_dtype[M, N]`

        ∀ M, N, K : Dim, SA, SB : Shape, T ∈ {float8_e4m3fn}
        where SA == (1, 1) and SB == (1, 1) or SA == (M, ceil_div(K, 128)) and (SB == (N, ceil_div(K, 128)) or SB == (ceil_div(N, 128), ceil_div(K, 128)))
        """

class GemmFwdOp(_ops.GemmFwdOp):
    """Matrix product; by default the second factor is a weight `[N, K]` (NT).

    Axes before the matrix are flattened by the caller: `x.flatten(0, -2)`.

    Source: `torch.matmul` of two matrices.
    """

    def __init__(
        self, trans_a: bool = False, trans_b: bool = True, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            trans_a: `bool`, False
            trans_b: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            a: `T Mat[trans_a, M, K]`
            b: `T Mat[trans_b, K, N]`

        Calls return:
            d: `T[M, N]`
        """

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Call the op.

        Args:
            a: `T Mat[trans_a, M, K]`
            b: `T Mat[trans_b, K, N]`

        Returns:
            d: `T[M, N]`

        ∀ M, N, K : Dim, T ∈ {float16, bfloat16, float32}
        type Mat[t: Bool, R: Dim, C: Dim] = match t
          false ⇒ [R, C]
          true ⇒ [C, R]
        """

class GemmInt8W8A8FwdOp(_ops.GemmInt8W8A8FwdOp):
    """Matrix product of int8 codes, `scale_a * scale_b * (a @ b.T) + bias`.

    Sums are integers, scales and bias float32, and the result is rounded once. A scale serves a
    whole tensor, each row of `a`, or each row of `b`.
    """

    def __init__(
        self, out_dtype: torch.dtype = torch.bfloat16, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            out_dtype: `bfloat16 | float16`, 'bfloat16'
            target: what serves the instance; by default the device decides

        Calls take:
            a: `int8[M, K]`
            b: `int8[N, K]`
            scale_a: `float32[*SA]`
            scale_b: `float32[*SB]`
            bias: `out_dtype[N]`

        Calls return:
            d: `out_dtype[M, N]`
        """

    def __call__(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            a: `int8[M, K]`
            b: `int8[N, K]`
            scale_a: `float32[*SA]`
            scale_b: `float32[*SB]`
            bias: `out_dtype[N]`

        Returns:
            d: `out_dtype[M, N]`

        ∀ M, N, K : Dim, SA, SB : Shape
        where SA == (1, 1) or SA == (M, 1)
          and SB == (1, 1) or SB == (1, N)
        """

class GemmW4A16FwdOp(_ops.GemmW4A16FwdOp):
    """Matrix product with a weight of 4-bit codes, `activation @ ((q - zero) * scale).T`.

    Columns share a scale and a zero point by groups. Two codes fill a byte in the order that
    `repack` makes of the plain one, low half before high; `INT4QuantPerGroupFwdOp` makes it too.
    Sums are float32 and rounded once.
    """

    def __init__(self, group_size: int = 128, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            group_size: `int`, 128
            target: what serves the instance; by default the device decides

        Calls take:
            activation: `T[M, K]`
            packed_weight: `uint8[N, K // 2]`
            weight_scale: `T[N, K // group_size]`
            weight_zero: `uint8[N, K // group_size]`

        Calls return:
            output: `T[M, N]`
        """

    def __call__(
        self, activation: Tensor, packed_weight: Tensor, weight_scale: Tensor, weight_zero: Tensor
    ) -> Tensor:
        """Call the op.

        Args:
            activation: `T[M, K]`
            packed_weight: `uint8[N, K // 2]`
            weight_scale: `T[N, K // group_size]`
            weight_zero: `uint8[N, K // group_size]`

        Returns:
            output: `T[M, N]`

        ∀ M, N, K : Dim, T ∈ {float16}
        where group_size > 0
          and K % 128 == 0
          and K % group_size == 0
        """

class GroupedGemmFwdOp(_ops.GroupedGemmFwdOp):
    """A matrix product for each group of rows, `out[r] = a[r] @ b[g].T`.

    Without `transpose_b` the factors are stored as they multiply. With `transpose_a` the product
    runs over a group's rows, `out[g] = a[r].T @ b[r]`: the gradient of the factors. Sums are
    float32 and rounded once.
    """

    def __init__(
        self, transpose_a: bool = False, transpose_b: bool = True, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            transpose_a: `bool`, False
            transpose_b: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            a: `T Left[transpose_a, M, N, K]`
            b: `T Right[transpose_a, transpose_b, G, M, N, K]`
            batch_sizes: `int32[G]`, in_range(0, M + 1), sums_to(M)
            batch_offsets: `int32[G]`, exclusive_prefix_of(batch_sizes)

        Calls return:
            output: `T Out[transpose_a, G, M, N, K]`
        """

    def __call__(self, a: Tensor, b: Tensor, batch_sizes: Tensor, batch_offsets: Tensor) -> Tensor:
        """Call the op.

        Args:
            a: `T Left[transpose_a, M, N, K]`
            b: `T Right[transpose_a, transpose_b, G, M, N, K]`
            batch_sizes: `int32[G]`, in_range(0, M + 1), sums_to(M)
            batch_offsets: `int32[G]`, exclusive_prefix_of(batch_sizes)

        Returns:
            output: `T Out[transpose_a, G, M, N, K]`

        ∀ M, G, N, K : Dim, T ∈ {float16, bfloat16, float32}
        type Left[ta: Bool, M: Dim, N: Dim, K: Dim] = match ta
          false ⇒ [M, K]
          true ⇒ [M, N]
        type Right[ta: Bool, tb: Bool, G: Dim, M: Dim, N: Dim, K: Dim] = match ta, tb
          false, false ⇒ [G, K, N]
          false, true ⇒ [G, N, K]
          true, false ⇒ [M, K]
          true, true ⇒ [K, M]
        type Out[ta: Bool, G: Dim, M: Dim, N: Dim, K: Dim] = match ta
          false ⇒ [M, N]
          true ⇒ [G, N, K]
        where M > 0 and G > 0 and N > 0 and K > 0
        """
