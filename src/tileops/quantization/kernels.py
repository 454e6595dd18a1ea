"""Kernel interfaces of the quantization family and their plain-torch implementations.

Scales are multipliers that bring codes back, `x ≈ q * scale`. Magnitudes and quotients are float32.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops.gemm.kernels.packing import pack, repack
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

BLOCK = 128
"""Elements along a row, and rows of a weight, that share a scale of their block."""

LARGEST_FP8 = 448.0
"""The largest magnitude of float8_e4m3fn."""

LARGEST_INT8 = 127.0
"""The largest magnitude used of int8, so that codes are symmetric."""

SMALLEST_AMAX = 1e-4
"""What the largest magnitude of a row counts as at least, where rows become float8."""


Grain = Literal["tensor", "row", "block"]


@dataclass(frozen=True)
class FP8QuantCall(CallSpec):
    """Rows of `width` numbers to float8, a scale for each.

    Args:
        width: numbers of a row.
        dtype: their element type.
    """

    width: int
    dtype: torch.dtype


class FP8QuantFwdInterface(KernelInterface):
    """Rows to float8."""

    request = FP8QuantCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each row by `scale = max(amax, 1e-4) / 448`.

        Args:
            x: `[R, width]` in `call.dtype`, any strides, on `call.device`; read.

        Returns:
            New contiguous tensors: scales `[R]` float32, codes `[R, width]` float8_e4m3fn, which
            are quotients cut off at ±448. `R` varies between calls.
        """


class FP8QuantPortableKernel(PortableKernel[FP8QuantCall], FP8QuantFwdInterface):
    """The codes by torch."""

    @classmethod
    def entry_for(cls, call: FP8QuantCall) -> tuple[Hashable, Callable[[], FP8QuantPortableKernel]]:
        """One build for all calls."""
        return (), lambda: cls(call)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each row."""
        numbers = x.float()
        scale = _over(numbers.abs().amax(-1).clamp(min=SMALLEST_AMAX), LARGEST_FP8)
        return scale, _fp8(numbers / scale[:, None]).contiguous()


class FP8QuantRowsKernel(Kernel, FP8QuantFwdInterface):
    """The codes in one pass: a row stays in the registers of threads of one warp.

    Args:
        width: numbers of a row.
        dtype: their element type.
    """

    supported_archs = frozenset({HOPPER})

    MOST_ACCESSES = 128
    """Accesses of a row: as many elements as registers of a warp hold."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.width, self.dtype = width, dtype
        self.vector = widest_access(width, dtype)

    @classmethod
    def refusal(cls, call: FP8QuantCall) -> str | None:
        """Refuses rows that a warp does not hold."""
        most = cls.MOST_ACCESSES * widest_access(call.width, call.dtype)
        if call.width > most:
            return f"holds rows of at most {most} such elements in registers, not {call.width}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: FP8QuantCall) -> tuple[Hashable, Callable[[], FP8QuantRowsKernel]]:
        """One build for each width and element type."""
        constants = call.width, call.dtype
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Threads of a block."""
        return {"threads": 256}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Other blocks."""
        return [{"threads": threads} for threads in (128, 256, 512)]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.quantization.programs import build_fp8_quant

        accesses = self.width // self.vector
        lanes = min(32, 1 << (accesses - 1).bit_length())
        program = build_fp8_quant(
            dtype_name(self.dtype),
            self.width,
            vector=self.vector,
            lanes=lanes,
            rows=config["threads"] // lanes,
            smallest=SMALLEST_AMAX,
            largest=LARGEST_FP8,
        )
        return program.compile(HOPPER)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each row."""
        scale = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
        self.program()(aligned(x.contiguous()), scale, codes)
        return scale, codes


@dataclass(frozen=True)
class FP8QuantPerBlockCall(CallSpec):
    """A weight to float8, a scale for each tile of 128 by 128.

    Args:
        n: rows.
        k: columns.
        dtype: element type.
    """

    n: int
    k: int
    dtype: torch.dtype


class FP8QuantPerBlockFwdInterface(KernelInterface):
    """Tiles to float8."""

    request = FP8QuantPerBlockCall

    @abstractmethod
    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each tile by `scale = amax / 448`, 1 where all of it is zero.

        Args:
            w: `[n, k]` in `call.dtype`, any strides, on `call.device`; read. Tiles at the end of
                rows and columns may be partial.

        Returns:
            New contiguous tensors: codes `[n, k]` float8_e4m3fn, scales
            `[⌈n / 128⌉, ⌈k / 128⌉]` float32.
        """


class FP8QuantPerBlockPortableKernel(
    PortableKernel[FP8QuantPerBlockCall], FP8QuantPerBlockFwdInterface
):
    """The codes by torch, partial tiles filled up with zeros."""

    @classmethod
    def entry_for(
        cls, call: FP8QuantPerBlockCall
    ) -> tuple[Hashable, Callable[[], FP8QuantPerBlockPortableKernel]]:
        """One build for all calls."""
        return (), lambda: cls(call)

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each tile."""
        n, k = w.shape
        tiles = F.pad(w.float(), (0, -k % BLOCK, 0, -n % BLOCK))
        tiles = tiles.unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
        scale = _scale(tiles.abs().amax((1, 3)), LARGEST_FP8)
        codes = _fp8(tiles / scale[:, None, :, None]).flatten(2).flatten(0, 1)
        return codes[:n, :k].contiguous(), scale


@dataclass(frozen=True)
class INT8QuantCall(CallSpec):
    """A matrix to int8.

    Args:
        grain: what shares a scale: all, each row, or each run of 128 along a row.
        k: columns.
        dtype: element type.
    """

    grain: Grain
    k: int
    dtype: torch.dtype


class INT8QuantFwdInterface(KernelInterface):
    """A matrix to int8."""

    request = INT8QuantCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise by `scale = amax / 127`, 1 where all that shares it is zero.

        Args:
            x: `[M, k]` in `call.dtype`, any strides, on `call.device`; read.

        Returns:
            New contiguous tensors: codes `[M, k]` int8, quotients rounded half to even and cut off
            at ±127; scales float32, `[1]`, `[M]` or `[M, ⌈k / 128⌉]`. `M` varies between calls.
        """


class INT8QuantPortableKernel(PortableKernel[INT8QuantCall], INT8QuantFwdInterface):
    """The codes by torch."""

    @classmethod
    def entry_for(
        cls, call: INT8QuantCall
    ) -> tuple[Hashable, Callable[[], INT8QuantPortableKernel]]:
        """One build for each grain."""
        return call.grain, lambda: cls(call)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise what shares a scale."""
        if self.call.grain == "tensor":
            codes, scale = int8_rows(x.float().reshape(1, -1))
            return codes.view(x.shape), scale
        if self.call.grain == "row":
            return int8_rows(x.float())
        runs = F.pad(x.float(), (0, -x.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
        codes, scale = int8_rows(runs)
        return codes.flatten(1)[:, : x.shape[1]].contiguous(), scale


@dataclass(frozen=True)
class SmoothQuantCall(CallSpec):
    """Rows divided by a smoothing vector, then to int8; the fields are those of `FP8QuantCall`."""

    width: int
    dtype: torch.dtype


class SmoothQuantFwdInterface(KernelInterface):
    """Smoothed rows to int8."""

    request = SmoothQuantCall

    @abstractmethod
    def forward(self, x: Tensor, smooth: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise each row of `x / smooth` by `scale = amax / 127`, 1 where it is all zero.

        Args:
            x: `[M, width]` in `call.dtype`, any strides, on `call.device`; read.
            smooth: `[width]` float32, likewise; read.

        Returns:
            New contiguous tensors: codes `[M, width]` int8 as of `INT8QuantFwdInterface`, scales
            `[M]` float32. `M` varies between calls.
        """


class SmoothQuantPortableKernel(PortableKernel[SmoothQuantCall], SmoothQuantFwdInterface):
    """The codes by torch."""

    @classmethod
    def entry_for(
        cls, call: SmoothQuantCall
    ) -> tuple[Hashable, Callable[[], SmoothQuantPortableKernel]]:
        """One build for all calls."""
        return (), lambda: cls(call)

    def forward(self, x: Tensor, smooth: Tensor) -> tuple[Tensor, Tensor]:
        """Smooth, then quantise each row."""
        return int8_rows(x.float() / smooth)


@dataclass(frozen=True)
class INT8DequantCall(CallSpec):
    """int8 codes back to numbers.

    Args:
        grain: what shares a scale, as of `INT8QuantCall`.
        k: columns.
        out_dtype: element type of the numbers.
    """

    grain: Grain
    k: int
    out_dtype: torch.dtype


class INT8DequantFwdInterface(KernelInterface):
    """int8 codes back to numbers."""

    request = INT8DequantCall

    @abstractmethod
    def forward(self, q: Tensor, scale: Tensor) -> Tensor:
        """Multiply each code by its scale, in float32.

        Args:
            q: `[M, k]` int8, any strides, on `call.device`; read.
            scale: float32, `[1]`, `[M]` or `[M, ⌈k / 128⌉]` as `call.grain` says; read.

        Returns:
            A new contiguous `[M, k]` in `call.out_dtype`, rounded once. `M` varies between calls.
        """


class INT8DequantPortableKernel(PortableKernel[INT8DequantCall], INT8DequantFwdInterface):
    """The products by torch."""

    @classmethod
    def entry_for(
        cls, call: INT8DequantCall
    ) -> tuple[Hashable, Callable[[], INT8DequantPortableKernel]]:
        """One build for each grain and element type."""
        return (call.grain, call.out_dtype), lambda: cls(call)

    def forward(self, q: Tensor, scale: Tensor) -> Tensor:
        """Multiply."""
        if self.call.grain == "block":
            whole = scale.new_empty(*scale.shape, BLOCK)  # the last block may be shorter
            product = whole.flatten(1)[:, : q.shape[1]].copy_(q)
            whole.mul_(scale[:, :, None])
        else:
            product = q * (scale[:, None] if self.call.grain == "row" else scale)
        return product.to(self.call.out_dtype).contiguous()


@dataclass(frozen=True)
class INT4QuantPerGroupCall(CallSpec):
    """A weight to 4-bit codes.

    Args:
        n: rows.
        k: columns.
        group_size: columns that share a scale and a zero point.
        dtype: element type of the weight and its scales.
    """

    n: int
    k: int
    group_size: int
    dtype: torch.dtype


class INT4QuantPerGroupFwdInterface(KernelInterface):
    """A weight to 4-bit codes, as `GemmW4A16FwdOp` takes them."""

    request = INT4QuantPerGroupCall

    @abstractmethod
    def forward(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Quantise each group over its range, which is widened to hold 0.

        `scale = (hi - lo) / 15`, at least the smallest normal number of `call.dtype` and 1 where
        the group is all zero, is rounded to `call.dtype` first; then `zero = round(-lo / scale)`
        and `q = clamp(round(w / scale) + zero, 0, 15)`, so that `w ≈ (q - zero) * scale`.

        Args:
            w: `[n, k]` in `call.dtype`, any strides, on `call.device`; read.

        Returns:
            New contiguous tensors: codes `[n, k // 2]` uint8, two to a byte in the order of
            `GemmW4A16FwdOp.repack`; scales `[n, k // group_size]` in `call.dtype`; zero points of
            the same shape, uint8.
        """


class INT4QuantPerGroupPortableKernel(
    PortableKernel[INT4QuantPerGroupCall], INT4QuantPerGroupFwdInterface
):
    """The codes by torch."""

    @classmethod
    def entry_for(
        cls, call: INT4QuantPerGroupCall
    ) -> tuple[Hashable, Callable[[], INT4QuantPerGroupPortableKernel]]:
        """One build for each group size."""
        return call.group_size, lambda: cls(call)

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Quantise each group."""
        groups = w.float().unflatten(1, (-1, self.call.group_size))
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        step = _over(high - low, 15).clamp(min=torch.finfo(w.dtype).smallest_normal)
        scale = torch.where(low == high, 1.0, step).to(w.dtype)
        zero = (-low / scale.float()).round().clamp(0, 15)
        codes = (groups / scale.float()[..., None]).round() + zero[..., None]
        codes = codes.clamp(0, 15).to(torch.uint8).flatten(1)
        return repack(pack(codes)), scale, zero.to(torch.uint8)


def int8_rows(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes of float32 numbers, and a scale for each run along the last axis."""
    scale = _scale(numbers.abs().amax(-1), LARGEST_INT8)
    quotient = (numbers / scale[..., None]).round()
    return quotient.clamp(-LARGEST_INT8, LARGEST_INT8).to(torch.int8).contiguous(), scale


def _scale(amax: Tensor, largest: float) -> Tensor:
    """What brings `amax` to `largest`; 1 where it is 0."""
    return torch.where(amax == 0, 1.0, _over(amax, largest))


def _over(x: Tensor, number: float) -> Tensor:
    """`x / number`, rounded once: CUDA multiplies by the inverse of what is no tensor there."""
    return x / x.new_full((), number)


def _fp8(quotients: Tensor) -> Tensor:
    """Codes of numbers, those beyond the largest cut off."""
    return quotients.clamp(-LARGEST_FP8, LARGEST_FP8).to(torch.float8_e4m3fn)
