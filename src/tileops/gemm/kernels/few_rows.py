"""Products of few rows with a weight, which reading the weight bounds.

Not for TileLang programs, which `programs` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops._kernels.scratch import scratch
from tileops.gemm.kernels.dense import GemmCall, GemmFwdInterface
from tileops.kernels import Kernel

_THREADS = 128  # of a block of the GEMV
_WEIGHT_ROWS, _DEPTH = 64, 128  # of the weight that a step of a part multiplies
_MOST_SPLITS = 8
_RING_BYTES = 216 * 1024
_HALVES = (torch.float16, torch.bfloat16)


def _few_rows_fault(call: GemmCall, most: int) -> str | None:
    """Why this is not a product of at most `most` rows with a weight of whole vectors, or None."""
    if call.m > most:
        return f"multiplies at most {most} rows, not {call.m}"
    if call.dtype not in _HALVES:
        return f"multiplies float16 and bfloat16, not {dtype_name(call.dtype)}"
    if call.trans_a or not call.trans_b:
        return "reads both factors along k: a [m, k] and b [n, k]"
    if call.k == 0:
        return "has no step to multiply when k is 0"
    unit = BOUNDARY // call.dtype.itemsize
    if call.k % unit:
        return f"reads rows in vectors of {unit} elements, of which k={call.k} is no multiple"
    return None


class GemvKernel(Kernel, GemmFwdInterface):
    """The product of one or two rows with a weight, without tensor cores; 16-bit operands.

    Args:
        dtype: element type.
        rows: rows that share each read of the weight.
        is_long: whether the threads of a block read several vectors each of one row of the weight.
    """

    supported_archs = frozenset({HOPPER})
    preferred_over = frozenset({"split", "pipelined"})

    MOST_ROWS = 2
    """With more, the tensor cores are ahead."""

    VECTORS = 4
    """Vectors of a row that a thread reads at once, where it is long."""

    def __init__(self, dtype: torch.dtype, rows: int, is_long: bool) -> None:
        super().__init__()
        self.dtype, self.rows, self.is_long = dtype, rows, is_long

    @classmethod
    def refusal(cls, call: GemmCall) -> str | None:
        """Refuses more rows, other layouts and element types, and odd lengths."""
        return _few_rows_fault(call, cls.MOST_ROWS) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemvKernel]]:
        """One build for each number of rows, and for whether a row has vectors for longer steps."""
        vectors = call.k * call.dtype.itemsize // BOUNDARY
        constants = (call.dtype, call.m, vectors >= cls.VECTORS * _THREADS)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Threads of a block, rows of the weight that it reads, and vectors of each at once."""
        columns, unroll = (1, self.VECTORS) if self.is_long else (4, 2)
        return {"threads": _THREADS, "columns": columns, "unroll": unroll}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other cuts of the weight."""
        cuts = product((64, 128, 256), (1, 2, 4), (2, 4))
        return [dict(zip(("threads", "columns", "unroll"), cut, strict=True)) for cut in cuts]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import build_gemv

        name = dtype_name(self.dtype)
        return build_gemv(name, rows=self.rows, **config).compile(HOPPER)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        d = torch.empty(a.shape[0], b.shape[0], dtype=self.dtype, device=a.device)
        self.program()(aligned(a.contiguous()), aligned(b.contiguous()), d)
        return d


class GemmSplitKernel(Kernel, GemmFwdInterface):
    """The product of few rows with a weight, whose depth blocks may share; 16-bit operands.

    Parts are kept in float32 and added by a second launch, which the first one prepares: worth
    it where a weight has too few rows to occupy the device otherwise. Other weights multiply
    fewer rows here, before tiles of the pipelined product are ahead.

    Args:
        dtype: element type.
        rows: rows that a block multiplies, a power of two from 8.
        splits: parts of the depth.
    """

    supported_archs = frozenset({HOPPER})
    preferred_over = frozenset({"pipelined"})

    MOST_ROWS, MOST_ROWS_IN_PARTS = 32, 128

    def __init__(self, dtype: torch.dtype, rows: int, splits: int) -> None:
        super().__init__()
        self.dtype, self.rows, self.splits = dtype, rows, splits

    @classmethod
    def refusal(cls, call: GemmCall) -> str | None:
        """Refuses more rows, other layouts and element types, and odd lengths."""
        refusal = super().refusal(call)
        if refusal is not None:
            return refusal
        most = cls.MOST_ROWS_IN_PARTS if cls._parts(call) > 1 else cls.MOST_ROWS
        return _few_rows_fault(call, most)

    @classmethod
    def entry_for(cls, call: GemmCall) -> tuple[Hashable, Callable[[], GemmSplitKernel]]:
        """One build for each class of row counts and number of parts."""
        rows = max(8, 1 << (call.m - 1).bit_length())
        constants = (call.dtype, rows, cls._parts(call))
        return constants, lambda: cls(*constants)

    @staticmethod
    def _parts(call: GemmCall) -> int:
        """Parts of the depth, as many as let all blocks run at once; two would not pay."""
        room = call.sm_count // -(-call.n // _WEIGHT_ROWS)
        parts = min(room, -(-call.k // _DEPTH), _MOST_SPLITS)
        return parts if parts > 2 else 1

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Buffers of the ring: what a multiprocessor holds."""
        return {"stages": _RING_BYTES // ((_WEIGHT_ROWS + self.rows) * _DEPTH * 2)}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other rings, down to two buffers."""
        return [{"stages": stages} for stages in range(2, self.default_config["stages"] + 1)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.gemm.programs import Tiling, build_gemm_split

        tiling = Tiling(_WEIGHT_ROWS, self.rows, _DEPTH, **config)
        program = build_gemm_split(dtype_name(self.dtype), tiling=tiling, splits=self.splits)
        return program.compile(HOPPER)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        a, b = aligned(a.contiguous()), aligned(b.contiguous())
        d = torch.empty(a.shape[0], b.shape[0], dtype=self.dtype, device=a.device)
        if self.splits == 1:
            self.program()(a, b, d)
        else:
            self.program()(a, b, *scratch(a.device, (self.splits, *d.shape)), d)
        return d
