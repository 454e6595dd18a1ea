"""Products of matrices of one floating-point dtype.

Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class GemmCall(CallSpec):
    """`d[m, n] = A[m, k] @ B[k, n]`, either factor stored transposed.

    `m` serves selection only (few rows want another algorithm than many): it varies between calls
    and is part of no identity.
    """

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    dtype: torch.dtype


class GemmFwdInterface(KernelInterface):
    """The product of two matrices."""

    request = GemmCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply.

        Args:
            a: `[m, k]`, or `[k, m]` when `call.trans_a`, in `call.dtype`, any strides, on
                `call.device`; read.
            b: `[k, n]`, or `[n, k]` when `call.trans_b`, likewise; read.

        Returns:
            A new contiguous `[m, n]` in `call.dtype`, accumulated in float32 and rounded once;
            zeros when `k` is 0. `m` and `n` are positive.
        """


class GemmPortableKernel(PortableKernel[GemmCall], GemmFwdInterface):
    """The product by torch."""

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemmPortableKernel]]:
        """One build for each pair of layouts."""
        return (call.trans_a, call.trans_b), lambda: cls(call)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        left = a.mT if self.call.trans_a else a
        return torch.mm(left, b.mT if self.call.trans_b else b)


class Tile(NamedTuple):
    """A tile of the result, the depth of one step along k, and the buffers of the ring."""

    rows: int
    columns: int
    depth: int
    stages: int

    def cycles(
        self, m: int, n: int, k: int, *, sm_count: int, width: int = 2, items: int = 1
    ) -> int:
        """Estimated cycles of products: rounds over the multiprocessors times a tile's steps.

        A step costs what multiplying or what copying its operands takes, whichever is more.
        Operands have elements of `width` bytes; there are `items` products.
        """
        tiles = items * -(-m // self.rows) * -(-n // self.columns)
        rounds = -(-tiles // sm_count)
        multiply = self.rows * self.columns * self.depth * width // _PRODUCT_BYTES_PER_CYCLE
        copy = (min(self.rows, m) + self.columns) * self.depth * width // _BYTES_PER_CYCLE
        steps = -(-k // self.depth)
        return rounds * (steps * max(multiply, copy) + _CYCLES_PER_TILE)


_PRODUCT_BYTES_PER_CYCLE = 4096  # of one multiprocessor: 2048 products of 16 bits, 4096 of 8
_BYTES_PER_CYCLE = 48  # that one multiprocessor gets from the L2 cache when all of them ask
_CYCLES_PER_TILE = 1500  # filling the ring and draining the last products


WIDEST_TILE = Tile(128, 256, 64, 4)
TILES = (
    WIDEST_TILE,
    Tile(128, 192, 64, 4),
    Tile(128, 128, 64, 6),
    Tile(64, 128, 64, 8),
    Tile(64, 64, 64, 12),
)
"""Tiles of any layout."""

TILES_OF_WEIGHTS = (*TILES, Tile(128, 176, 64, 5), Tile(64, 32, 64, 16))
"""Tiles where `b` is stored along k, so that columns may be any multiple of 16."""


class PipelinedKernel(Kernel):
    """Products on Hopper's tensor cores, fed by the copy engine; 16-bit operands.

    Args:
        trans_a: whether `a` is stored transposed.
        trans_b: whether `b` is stored transposed.
        dtype: element type.
        tile: how the product is cut up, chosen from the shape of the first call.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})
    batched: ClassVar[bool] = False
    """Whether the operands hold several matrices."""

    def __init__(
        self, trans_a: bool, trans_b: bool, dtype: torch.dtype, tile: Tile, blocks: int
    ) -> None:
        super().__init__()
        self.trans_a, self.trans_b, self.dtype = trans_a, trans_b, dtype
        self.tile, self.blocks = tile, blocks

    @classmethod
    def refusal(cls, call: GemmCall) -> str | None:
        """Refuses other element types, and row pitches that the copy engine cannot take."""
        if call.dtype not in (torch.float16, torch.bfloat16):
            return f"multiplies float16 and bfloat16, not {dtype_name(call.dtype)}"
        if call.k == 0:
            return "has no step to multiply when k is 0"
        inner = {
            "a": "m" if call.trans_a else "k",
            "b": "k" if call.trans_b else "n",
            "the result": "n",
        }
        unit = BOUNDARY // call.dtype.itemsize
        for tensor, extent in inner.items():
            if getattr(call, extent) % unit:
                return (
                    f"copies rows whose pitch is a multiple of {BOUNDARY} bytes; in {tensor} "
                    f"{extent}={getattr(call, extent)} is no multiple of {unit}"
                )
        return super().refusal(call)

    @staticmethod
    def items(call: GemmCall) -> int:
        """How many products a call has."""
        return 1

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], PipelinedKernel]]:
        """One build for each pair of layouts and class of shapes; no extent is part of it."""
        extents = call.m, call.n, call.k
        device = {"sm_count": call.sm_count, "items": cls.items(call)}
        tiles = TILES_OF_WEIGHTS if call.trans_b else TILES
        tile = min(tiles, key=lambda tile: tile.cycles(*extents, **device))
        constants = (call.trans_a, call.trans_b, call.dtype, tile, call.sm_count)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Tile rows that neighbours share, and blocks that share copies of `b`."""
        return {"group": 16 if self.tile == WIDEST_TILE else 8, "cluster": 1}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other walks over the tiles."""
        return [{"group": group, "cluster": cluster} for group in (4, 8, 16) for cluster in (1, 2)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import Tiling, build_gemm_pipelined

        program = build_gemm_pipelined(
            dtype_name(self.dtype),
            trans_a=self.trans_a,
            trans_b=self.trans_b,
            tiling=Tiling(*self.tile, **config),
            blocks=self.blocks,
            batched=self.batched,
        )
        return program.compile(HOPPER)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        m, n = a.shape[-1 if self.trans_a else -2], b.shape[-2 if self.trans_b else -1]
        d = torch.empty(*a.shape[:-2], m, n, dtype=self.dtype, device=a.device)
        self.program()(aligned(a.contiguous()), aligned(b.contiguous()), d)
        return d


class GemmPipelinedKernel(PipelinedKernel, GemmFwdInterface):
    """The product on Hopper's tensor cores, fed by the copy engine; 16-bit operands."""
