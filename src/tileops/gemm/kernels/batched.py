"""Products of two equally long runs of matrices.

Not for TileLang programs, which `programs` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
from tileops.gemm.kernels.dense import GemmCall, PipelinedKernel, Tile
from tileops.gemm.kernels.scaled import TILES_FP8, pitch_fault
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class BmmCall(GemmCall):
    """`d[b, m, n] = A[b, m, k] @ B[b, k, n]` for each `b`, either factor stored transposed.

    `batch`, as `m`, varies between calls and serves selection only.
    """

    batch: int


class BmmFwdInterface(KernelInterface):
    """The products of two equally long runs of matrices."""

    request = BmmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair.

        Args:
            a: `[batch, m, k]`, or `[batch, k, m]` when `call.trans_a`, in `call.dtype`, any
                strides, on `call.device`; read.
            b: `[batch, k, n]`, or `[batch, n, k]` when `call.trans_b`, likewise; read.

        Returns:
            A new contiguous `[batch, m, n]` in `call.dtype`, accumulated in float32 and rounded
            once; zeros when `k` is 0. `batch`, `m` and `n` are positive.
        """


class BmmPortableKernel(PortableKernel[BmmCall], BmmFwdInterface):
    """The products by torch."""

    @classmethod
    def entry_for(cls, call: BmmCall) -> tuple[Hashable, Callable[[], BmmPortableKernel]]:
        """One build for each pair of layouts."""
        return (call.trans_a, call.trans_b), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply each pair."""
        left = a.mT if self.call.trans_a else a
        return torch.bmm(left, b.mT if self.call.trans_b else b)


class BmmPipelinedKernel(PipelinedKernel, BmmFwdInterface):
    """The products on Hopper's tensor cores, fed by the copy engine; 16-bit operands."""

    batched = True

    @staticmethod
    def items(call: GemmCall) -> int:
        """How many products a call has."""
        return call.batch if isinstance(call, BmmCall) else 1


@dataclass(frozen=True)
class BmmFP8Call(CallSpec):
    """`d[b] = scale_a * scale_b * (a[b] @ b[b])` of float8 codes.

    `m` and `batch` vary between calls and serve selection only.
    """

    m: int
    n: int
    k: int
    trans_b: bool
    dtype: torch.dtype
    out_dtype: torch.dtype
    batch: int


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


class BmmFP8PipelinedKernel(Kernel, BmmFP8FwdInterface):
    """The products on Hopper's tensor cores, which read codes along k; others are turned before.

    Args:
        trans_b: whether `b` is stored transposed.
        out_dtype: element type of the result.
        tile: how each product is cut up, chosen from the shape of the first call.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, trans_b: bool, out_dtype: torch.dtype, tile: Tile, blocks: int) -> None:
        super().__init__()
        self.trans_b, self.out_dtype = trans_b, out_dtype
        self.tile, self.blocks = tile, blocks

    @classmethod
    def refusal(cls, call: BmmFP8Call) -> str | None:
        """Refuses row pitches that the copy engine cannot take."""
        return pitch_fault(call.n, call.k, call.out_dtype) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: BmmFP8Call) -> tuple[Hashable, Callable[[], BmmFP8PipelinedKernel]]:
        """One build for each layout, result and class of shapes."""
        extents = call.m, call.n, call.k
        device = {"sm_count": call.sm_count, "items": call.batch}
        tile = min(TILES_FP8, key=lambda tile: tile.cycles(*extents, width=1, **device))
        constants = (call.trans_b, call.out_dtype, tile, call.sm_count)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Tile rows that neighbours share, and blocks that share copies of `b`."""
        return {"group": 8, "cluster": 1}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other walks over the tiles."""
        return [{"group": group, "cluster": cluster} for group in (4, 8, 16) for cluster in (1, 2)]

    def make_program(self, config: Mapping[str, Any]) -> tuple[Callable[..., None], ...]:
        """Compile the program, and the one that turns `b` where that is asked."""
        from tileops.gemm.programs import Tiling, build_gemm_scaled, build_turn

        program = build_gemm_scaled(
            "float8_e4m3fn",
            dtype_name(self.out_dtype),
            scales_a="tensor",
            scales_b="tensor",
            biased=False,
            tiling=Tiling(*self.tile, **config),
            blocks=self.blocks,
            batched=True,
        )
        others = () if self.trans_b else (build_turn(),)
        return tuple(each.compile(HOPPER) for each in (program, *others))

    def forward(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        """Multiply each pair."""
        multiply, *turn = self.program()
        rows = b if self.trans_b else b.mT
        if turn and not rows.is_contiguous():
            rows = _turned(turn[0], aligned(b.contiguous()))
        d = torch.empty(*a.shape[:2], rows.shape[1], dtype=self.out_dtype, device=a.device)
        factors = aligned(a.contiguous()), aligned(rows.contiguous())
        multiply(*factors, scale_a.reshape(1, 1), scale_b.reshape(1, 1), d, d)
        return d


def _turned(turn: Callable[..., None], codes: Tensor) -> Tensor:
    """Each matrix transposed, in memory kept between calls."""
    batch, k, n = codes.shape
    words = torch.int32
    (kept,) = scratch(codes.device, (batch, n, k // words.itemsize))
    turn(codes.view(words), kept.view(words))
    return kept.view(codes.dtype)
