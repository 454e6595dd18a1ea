"""Products of float8 and int8 codes, whose scales bring them back to numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel

BLOCK = 128
"""Elements along k, and rows of a weight, that share a scale of their block."""


@dataclass(frozen=True)
class GemmFp8Call(CallSpec):
    """`d = (scale_a * a) @ (scale_b * b).T + bias` of float8 codes.

    Args:
        m: rows of `a`; it varies between calls and serves selection only.
        n: rows of `b`.
        k: columns of both.
        scales_a: whether one scale serves all of `a`, or each run of 128 along a row has its own.
        scales_b: likewise for `b`, or each tile of 128 by 128.
        has_bias: whether a bias is added.
        dtype: element type of the codes.
        out_dtype: element type of the bias and the result.
    """

    m: int
    n: int
    k: int
    scales_a: Literal["tensor", "row_block"]
    scales_b: Literal["tensor", "row_block", "tile"]
    has_bias: bool
    dtype: torch.dtype
    out_dtype: torch.dtype


class GemmFp8FwdInterface(KernelInterface):
    """The product of scaled float8 codes."""

    request = GemmFp8Call

    @abstractmethod
    def forward(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Multiply.

        All tensors are on `call.device`, of any strides, and only read.

        Args:
            a: `[m, k]` in `call.dtype`.
            b: `[n, k]` in `call.dtype`.
            scale_a: float32 `[1, 1]` or `[m, ⌈k / 128⌉]`, as `call.scales_a` says.
            scale_b: float32 `[1, 1]`, `[n, ⌈k / 128⌉]` or `[⌈n / 128⌉, ⌈k / 128⌉]`.
            bias: `[n]` in `call.out_dtype`, None unless `call.has_bias`.

        Returns:
            A new contiguous `[m, n]` in `call.out_dtype`. Sums are float32, scales apply within
            blocks before these are added up, the bias is added in float32, and the result is
            rounded once; the bias alone when `k` is 0.
        """


class GemmFp8PortableKernel(PortableKernel[GemmFp8Call], GemmFp8FwdInterface):
    """The float32 product of the numbers that the codes stand for."""

    @classmethod
    def entry_for(cls, call: GemmFp8Call) -> tuple[Hashable, Callable[[], GemmFp8PortableKernel]]:
        """One build for each kind of scales and result."""
        return (call.scales_a, call.scales_b, call.out_dtype), lambda: cls(call)

    def forward(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Multiply."""
        left = a.float() * _spread(scale_a, self.call.scales_a, *a.shape)
        right = b.float() * _spread(scale_b, self.call.scales_b, *b.shape)
        return _with_bias(left @ right.T, bias).to(self.call.out_dtype)


def _spread(scale: Tensor, kind: str, rows: int, columns: int) -> Tensor:
    """A scale for each element, or one for all."""
    if kind == "tensor":
        return scale
    if kind == "tile":
        scale = scale.repeat_interleave(BLOCK, 0)[:rows]
    return scale.repeat_interleave(BLOCK, 1)[:, :columns]


def _with_bias(product: Tensor, bias: Tensor | None) -> Tensor:
    """The sum with a bias, in the product's dtype."""
    return product if bias is None else product + bias.to(product.dtype)


@dataclass(frozen=True)
class BmmFP8Call(CallSpec):
    """`d[b] = scale_a * scale_b * (a[b] @ b[b])` of float8 codes; `m` as in `GemmFp8Call`."""

    m: int
    n: int
    k: int
    trans_b: bool
    dtype: torch.dtype
    out_dtype: torch.dtype


class BmmFP8FwdInterface(KernelInterface):
    """The products of two equally long runs of matrices of float8 codes."""

    request = BmmFP8Call

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        """Multiply each pair.

        All tensors are on `call.device`, of any strides, and only read.

        Args:
            a: `[B, m, k]` in `call.dtype`.
            b: `[B, k, n]`, or `[B, n, k]` when `call.trans_b`, in `call.dtype`.
            scale_a: float32 scalar.
            scale_b: float32 scalar.

        Returns:
            A new contiguous `[B, m, n]` in `call.out_dtype`, accumulated and scaled in float32 and
            rounded once.
        """


class BmmFP8PortableKernel(PortableKernel[BmmFP8Call], BmmFP8FwdInterface):
    """The float32 products of the codes, scaled."""

    @classmethod
    def entry_for(cls, call: BmmFP8Call) -> tuple[Hashable, Callable[[], BmmFP8PortableKernel]]:
        """One build for each layout and result."""
        return (call.trans_b, call.out_dtype), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        """Multiply each pair."""
        right = b.mT if self.call.trans_b else b
        product = torch.bmm(a.float(), right.float())
        return (product * (scale_a * scale_b)).to(self.call.out_dtype)


@dataclass(frozen=True)
class GemmInt8W8A8Call(CallSpec):
    """`d = scale_a * scale_b * (a @ b.T) + bias` of int8 codes.

    Args:
        m: rows of `a`; it varies between calls and serves selection only.
        n: rows of `b`.
        k: columns of both.
        rows_scaled: whether each row of `a` has a scale.
        columns_scaled: whether each row of `b`, a column of the result, has a scale.
        has_bias: whether a bias is added.
        out_dtype: element type of the bias and the result.
    """

    m: int
    n: int
    k: int
    rows_scaled: bool
    columns_scaled: bool
    has_bias: bool
    out_dtype: torch.dtype


class GemmInt8W8A8FwdInterface(KernelInterface):
    """The product of scaled int8 codes."""

    request = GemmInt8W8A8Call

    @abstractmethod
    def forward(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Multiply.

        All tensors are on `call.device`, of any strides, and only read.

        Args:
            a: `[m, k]` int8.
            b: `[n, k]` int8.
            scale_a: float32 `[m, 1]`, or `[1, 1]` unless `call.rows_scaled`.
            scale_b: float32 `[1, n]`, or `[1, 1]` unless `call.columns_scaled`.
            bias: `[n]` in `call.out_dtype`, None unless `call.has_bias`.

        Returns:
            A new contiguous `[m, n]` in `call.out_dtype`: integer sums, scales and bias in float32,
            rounded once.
        """


class GemmInt8W8A8PortableKernel(PortableKernel[GemmInt8W8A8Call], GemmInt8W8A8FwdInterface):
    """The integer sums as float64, which holds them exactly and is multiplied everywhere."""

    @classmethod
    def entry_for(
        cls, call: GemmInt8W8A8Call
    ) -> tuple[Hashable, Callable[[], GemmInt8W8A8PortableKernel]]:
        """One build for each result."""
        return call.out_dtype, lambda: cls(call)

    def forward(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Multiply."""
        sums = (a.double() @ b.double().T).float()
        return _with_bias(sums * scale_a * scale_b, bias).to(self.call.out_dtype)
