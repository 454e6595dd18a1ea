"""References of the gemm family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor


def gemm(a: Tensor, b: Tensor, *, trans_a: bool = False, trans_b: bool = True) -> Tensor:
    """`A @ B`, either factor stored transposed."""
    left = (a.mT if trans_a else a).double()
    return (left @ (b.mT if trans_b else b).double()).to(a.dtype)


def gemm_bwd(
    grad_out: Tensor, a: Tensor, b: Tensor, *, trans_a: bool = False, trans_b: bool = True
) -> tuple[Tensor, Tensor]:
    """`A @ B`, differentiated by torch."""
    return _differentiated(partial(gemm, trans_a=trans_a, trans_b=trans_b), grad_out, a, b)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """`a[i] @ b[i]` for each `i`."""
    return (a.double() @ b.double()).to(a.dtype)


def bmm_bwd(grad_out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """`a[i] @ b[i]`, differentiated by torch."""
    return _differentiated(bmm, grad_out, a, b)


def _differentiated(
    product: Callable[[Tensor, Tensor], Tensor], grad_out: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of both factors in float64, rounded once."""
    left, right = a.double().requires_grad_(), b.double().requires_grad_()
    with torch.enable_grad():
        found = product(left, right)
    grad_a, grad_b = torch.autograd.grad(found, (left, right), grad_out.double())
    return grad_a.to(a.dtype), grad_b.to(b.dtype)


def gemm_fp8(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """The product of the numbers that codes stand for, and a bias."""
    blocks = -(-a.shape[1] // 128)
    product = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64)
    if scale_a.shape == scale_b.shape == (1, 1):
        product += a.double() @ b.double().T * scale_a.double() * scale_b.double()
    else:
        of_rows = [row if scale_b.shape[0] == b.shape[0] else row // 128 for row in range(len(b))]
        for block in range(blocks):
            part = slice(128 * block, 128 * (block + 1))
            factor = scale_a[:, block, None].double() * scale_b[of_rows, block].double()
            product += a[:, part].double() @ b[:, part].double().T * factor
    return (product if bias is None else product + bias.double()).to(out_dtype)


def gemm_w4a16(
    activation: Tensor,
    packed_weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    *,
    group_size: int = 128,
) -> Tensor:
    """The product with `(q - zero) * scale`, the codes read in the order of packed weights."""
    n, k = packed_weight.shape[0], activation.shape[1]
    codes = torch.empty(n, k, dtype=torch.float64)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        half = packed_weight[:, place // 2 :: 4]
        codes[:, column::8] = (half // 16 if place % 2 else half % 16).double()
    zero, scale = (
        part.double().repeat_interleave(group_size, 1) for part in (weight_zero, weight_scale)
    )
    return (activation.double() @ ((codes - zero) * scale).T).to(activation.dtype)


def grouped_gemm(
    a: Tensor,
    b: Tensor,
    batch_sizes: Tensor,
    batch_offsets: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """A product for each group of rows, or over each group of rows."""
    right = (b.mT if transpose_b else b).double()
    spans = zip(batch_offsets.tolist(), batch_sizes.tolist(), strict=True)
    parts = []
    for group, (start, size) in enumerate(spans):
        rows = slice(start, start + size)
        left = a[rows].double()
        parts.append(left.T @ right[rows] if transpose_a else left @ right[group])
    return (torch.stack(parts) if transpose_a else torch.cat(parts)).to(a.dtype)


def gemm_int8_w8a8(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """Integer sums, scaled, and a bias."""
    sums = (a.int() @ b.int().T).double() * scale_a.double() * scale_b.double()
    return (sums if bias is None else sums + bias.double()).to(out_dtype)


def bmm_fp8(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    trans_b: bool = False,
) -> Tensor:
    """`scale_a * scale_b * (a[i] @ b[i])` for each `i`."""
    product = a.double() @ (b.mT if trans_b else b).double()
    return (product * scale_a.double() * scale_b.double()).to(out_dtype)
