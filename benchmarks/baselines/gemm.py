"""Products of matrices as torch and cuBLAS have them; torch calls cuBLAS on CUDA."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileops.bench.baselines import baseline


@baseline("torch", "GemmFwdOp")
@baseline("cublas", "GemmFwdOp")
def gemm(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a.mT if op.trans_a else a, b.mT if op.trans_b else b)


@baseline("torch", "BmmFwdOp")
@baseline("cublas", "BmmFwdOp")
def bmm(op: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a, b)


@baseline("cublas", "GemmFp8FwdOp")
def scaled_mm(
    op: Any, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
) -> Tensor:
    if scale_a.numel() != 1 or scale_b.numel() != 1:
        raise NotImplementedError("only products with one scale for each factor are compared")
    scales = scale_a.reshape(()), scale_b.reshape(())
    return torch._scaled_mm(a, b.T, *scales, bias, out_dtype=op.out_dtype, use_fast_accum=True)


@baseline("torch", "GemmFp8FwdOp")
def dequantized_fp8(
    op: Any, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
) -> Tensor:
    left, right = spread(a, scale_a, a.shape[0]), spread(b, scale_b, b.shape[0])
    product = left.to(op.out_dtype) @ right.to(op.out_dtype).T
    return product if bias is None else product + bias.to(op.out_dtype)


def spread(codes: Tensor, scale: Tensor, rows: int) -> Tensor:
    """Codes times their scale: one for all, or one for each block of 128 columns."""
    if scale.numel() == 1:
        return codes.float() * scale
    of_column = scale.repeat_interleave(128, 1)[:, : codes.shape[1]]
    if scale.shape[0] != rows:
        of_column = of_column.repeat_interleave(128, 0)[:rows]
    return codes.float() * of_column


@baseline("torch", "GemmInt8W8A8FwdOp")
@baseline("cublas", "GemmInt8W8A8FwdOp")
def int8_mm(
    op: Any, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
) -> Tensor:
    sums = torch._int_mm(a, b.T).float() * scale_a * scale_b
    return (sums if bias is None else sums + bias).to(op.out_dtype)


@baseline("torch", "BmmFP8FwdOp")
def bmm_fp8(op: Any, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    right = b.mT if op.trans_b else b
    product = torch.bmm(a.to(op.out_dtype), right.to(op.out_dtype))
    return (product * (scale_a * scale_b)).to(op.out_dtype)


@baseline("torch", "GroupedGemmFwdOp")
@baseline("cublas", "GroupedGemmFwdOp")
def grouped_gemm(op: Any, a: Tensor, b: Tensor, sizes: Tensor, offsets: Tensor) -> Tensor:
    """A product after the other, as sizes that lie on the host allow."""
    right = b.mT if op.transpose_b else b
    parts = a.split(sizes.tolist())
    if op.transpose_a:
        of_parts = right.split(sizes.tolist())
        products = [left.T @ part for left, part in zip(parts, of_parts, strict=True)]
        return torch.stack(products)
    return torch.cat([left @ right[group] for group, left in enumerate(parts)])


@baseline("torch", "GemmBwdOp")
@baseline("cublas", "GemmBwdOp")
def gemm_backward(op: Any, grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    left, right = a.mT if op.trans_a else a, b.mT if op.trans_b else b
    grad_a = right @ grad.mT if op.trans_a else grad @ right.mT
    grad_b = grad.mT @ left if op.trans_b else left.mT @ grad
    return grad_a, grad_b


@baseline("torch", "BmmBwdOp")
@baseline("cublas", "BmmBwdOp")
def bmm_backward(op: Any, grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return torch.bmm(grad, b.mT), torch.bmm(a.mT, grad)


ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column of each code within a group of eight, in the order in which they are packed."""


@baseline("torch", "GemmW4A16FwdOp")
def dequantized_w4(op: Any, x: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    halves = torch.stack((packed & 15, packed >> 4), -1).flatten(1).unflatten(1, (-1, 8))
    place = torch.tensor(ORDER, device=x.device).argsort()
    groups = halves[..., place].flatten(1).unflatten(1, (-1, op.group_size)).to(x.dtype)
    weight = (groups - zero[..., None].to(x.dtype)) * scale[..., None]
    return x @ weight.flatten(1).T
