"""Products of float8 and int8 codes, whose scales bring them back to numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops.gemm.kernels.dense import Tile
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

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


def pitch_fault(n: int, k: int, out_dtype: torch.dtype) -> str | None:
    """Why products of codes with rows of these lengths are not served, or None."""
    if k == 0:
        return "has no step to multiply when k is 0"
    for tensor, name, extent, unit in (
        ("the factors", "k", k, BOUNDARY),
        ("the result", "n", n, BOUNDARY // out_dtype.itemsize),
    ):
        if extent % unit:
            return (
                f"copies rows whose pitch is a multiple of {BOUNDARY} bytes; in {tensor} "
                f"{name}={extent} is no multiple of {unit}"
            )
    return None


TILES_FP8 = (Tile(128, 128, 128, 5), Tile(64, 128, 128, 6), Tile(64, 64, 128, 8))
"""A panel of 64 columns lies within one scale of a tile of codes."""

TILES_FP8_BY_ROW = (Tile(128, 64, 128, 7), Tile(64, 64, 128, 8))
"""Scales of all columns take the registers that wider tiles need."""


class GemmFp8PipelinedKernel(Kernel, GemmFp8FwdInterface):
    """The product on Hopper's tensor cores, each run of 128 scaled as it is added.

    Args:
        scales_a: what shares a scale in `a`.
        scales_b: what shares a scale in `b`.
        has_bias: whether a bias is added.
        out_dtype: element type of the bias and the result.
        tile: how the product is cut up, chosen from the shape of the first call.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self,
        scales_a: str,
        scales_b: str,
        has_bias: bool,
        out_dtype: torch.dtype,
        tile: Tile,
        blocks: int,
    ) -> None:
        super().__init__()
        self.scales_a, self.scales_b, self.has_bias = scales_a, scales_b, has_bias
        self.out_dtype, self.tile, self.blocks = out_dtype, tile, blocks

    @classmethod
    def refusal(cls, call: GemmFp8Call) -> str | None:
        """Refuses row pitches that the copy engine cannot take."""
        return pitch_fault(call.n, call.k, call.out_dtype) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: GemmFp8Call) -> tuple[Hashable, Callable[[], GemmFp8PipelinedKernel]]:
        """One build for each kind of scales, result and class of shapes."""
        tiles = TILES_FP8_BY_ROW if call.scales_b == "row_block" else TILES_FP8
        tile = min(
            tiles,
            key=lambda tile: tile.cycles(call.m, call.n, call.k, sm_count=call.sm_count, width=1),
        )
        kind = call.scales_a, call.scales_b, call.has_bias, call.out_dtype
        return (*kind, tile, call.sm_count), lambda: cls(*kind, tile, call.sm_count)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Tile rows that neighbours share, and blocks that share copies of `b`."""
        return {"group": 8, "cluster": 1}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other walks over the tiles."""
        return [{"group": group, "cluster": cluster} for group in (4, 8, 16) for cluster in (1, 2)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import Tiling, build_gemm_scaled

        program = build_gemm_scaled(
            "float8_e4m3fn",
            dtype_name(self.out_dtype),
            scales_a=self.scales_a,
            scales_b=self.scales_b,
            biased=self.has_bias,
            tiling=Tiling(*self.tile, **config),
            blocks=self.blocks,
        )
        return program.compile(HOPPER)

    def forward(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Multiply."""
        d = torch.empty(a.shape[0], b.shape[0], dtype=self.out_dtype, device=a.device)
        factors = aligned(a.contiguous()), aligned(b.contiguous())
        added = d if bias is None else bias.contiguous()
        self.program()(*factors, scale_a.contiguous(), scale_b.contiguous(), added, d)
        return d


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
