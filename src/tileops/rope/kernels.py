"""Kernel interface of the rope family and its implementations.

The op makes the tables of cosines and sines; kernels rotate by them. Not for TileLang programs,
which `programs.py` holds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

_THREADS = 1024  # of the largest block


@dataclass(frozen=True)
class Access:
    """How a program reads its input.

    Args:
        vector: elements of one access.
        heads: heads that a block works on at once.
        positions: element type of position ids, or None.
    """

    vector: int
    heads: int
    positions: torch.dtype | None


@dataclass(frozen=True)
class RotaryCall(CallSpec):
    """A rotation of pairs of channels by tabled angles.

    Args:
        layout: `"neox"` pairs channel `i` with `i + rotary_dim / 2`, `"interleaved"` pairs `2i`
            with `2i + 1`.
        head_dim: channels of a head.
        rotary_dim: channels that are rotated, the first ones of a head; even and positive.
        has_positions: whether table rows are chosen by position ids.
        dtype: element type of input and result.
        access: how a program reads the input, on an accelerator; None where no program serves it.
    """

    layout: Literal["neox", "interleaved"]
    head_dim: int
    rotary_dim: int
    has_positions: bool
    dtype: torch.dtype
    access: Access | None = None


class RotaryFwdInterface(KernelInterface):
    """`(a cos - b sin, b cos + a sin)` for each pair `(a, b)` of channels."""

    request = RotaryCall

    @abstractmethod
    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate.

        Args:
            x: `[B, S, H, head_dim]` in `call.dtype`, any strides, on `call.device`; read.
            cos: `[P, rotary_dim / 2]` float32, contiguous, on `call.device`; read. `P >= S`
                unless there are positions.
            sin: likewise; read.
            positions: `[S]` int32 or int64, contiguous: the table row of each place of the
                sequence, within the table; None exactly when `call.has_positions` is false, and
                place `s` takes row `s`.

        Returns:
            A new contiguous `[B, S, H, head_dim]` in `call.dtype`. Arithmetic is float32, rounded
            once; channels from `rotary_dim` on are copied bit for bit. Lengths vary between calls.
        """


class RotaryPortableKernel(PortableKernel[RotaryCall], RotaryFwdInterface):
    """The rotation by torch; a float32 table makes it compute half types in float32."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate."""
        rows = slice(x.shape[1]) if positions is None else positions
        cos, sin = cos[rows][:, None], sin[rows][:, None]
        output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        wide = x[..., : self.call.rotary_dim].to(torch.promote_types(x.dtype, cos.dtype))
        (a, b), (first, second) = self._pairs(wide), self._pairs(output)
        first.copy_((a * cos).addcmul_(b, sin, value=-1))
        second.copy_((b * cos).addcmul_(a, sin))
        output[..., self.call.rotary_dim :] = x[..., self.call.rotary_dim :]
        return output

    def _pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second channel of every pair, as views."""
        width = self.call.rotary_dim
        if self.call.layout == "interleaved":
            return x[..., 0:width:2], x[..., 1:width:2]
        return x[..., : width // 2], x[..., width // 2 : width]


def access_to(
    x: Tensor, rotary_dim: int, interleaved: bool, positions: Tensor | None
) -> Access | None:
    """The widest access that channels, strides and address of `[B, S, H, D]` allow."""
    channels = x.shape[3]
    if x.numel() == 0 or (x.stride(3) != 1 and channels != 1) or _span(x) >= 1 << 31:
        return None
    vector = math.gcd(BOUNDARY // x.element_size(), x.data_ptr() // x.element_size(), channels)
    vector = math.gcd(vector, rotary_dim if interleaved else rotary_dim // 2)
    for axis in range(3):
        if x.shape[axis] != 1:
            vector = math.gcd(vector, x.stride(axis))
    if interleaved and vector < 2:
        return None
    units = rotary_dim // 2 // (vector // 2 if interleaved else vector)
    if units > _THREADS:
        return None
    heads = min(8, 1 << (x.shape[2] - 1).bit_length(), _THREADS // units)
    return Access(vector, heads, None if positions is None else positions.dtype)


def _span(x: Tensor) -> int:
    """Elements from the first to the last."""
    return 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))


class RotaryTileKernel(Kernel, RotaryFwdInterface):
    """The rotation in one pass; cosines and sines are read once for all heads of a token.

    Args:
        layout: which channels are pairs.
        head_dim: channels of a head.
        rotary_dim: channels that are rotated.
        dtype: element type of input and result.
        access: how the input is read.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self,
        layout: Literal["neox", "interleaved"],
        head_dim: int,
        rotary_dim: int,
        dtype: torch.dtype,
        access: Access,
    ) -> None:
        super().__init__()
        self.layout, self.head_dim, self.rotary_dim = layout, head_dim, rotary_dim
        self.dtype, self.access = dtype, access

    @classmethod
    def refusal(cls, call: RotaryCall) -> str | None:
        """Refuses inputs to which there is no access."""
        if call.access is None:
            return "reads heads without gaps that fit a block, of fewer than 2^31 elements in all"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: RotaryCall) -> tuple[Hashable, Callable[[], RotaryTileKernel]]:
        """One build for all batches and sequences."""
        assert call.access is not None
        constants = (call.layout, call.head_dim, call.rotary_dim, call.dtype, call.access)
        return constants, lambda: cls(*constants)

    @property
    def rotation(self) -> Any:
        """What the program rotates."""
        from tileops.rope.programs import Rotation

        name = dtype_name(self.dtype)
        interleaved = self.layout == "interleaved"
        return Rotation(name, interleaved, self.rotary_dim, self.head_dim, self.access.vector)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Blocks of about 128 threads, two heads of a thread in flight."""
        units, heads = self.rotation.units, self.access.heads
        return {"tokens": max(1, 128 // (units * heads)), "unroll": 2 if heads == 8 else 1}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.rope.programs import build_rotary

        kind = self.access.positions
        positions = None if kind is None else dtype_name(kind)
        program = build_rotary(self.rotation, positions, heads=self.access.heads, **config)
        return program.compile(HOPPER)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate."""
        batch, length, heads, _ = x.shape
        output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        line = x.as_strided((_span(x),), (1,))
        rows = cos if positions is None else aligned(positions)
        vector = self.access.vector
        steps = [
            0 if size == 1 else step // vector
            for size, step in zip(x.shape[:3], x.stride()[:3], strict=True)
        ]
        self.program()(
            line, aligned(cos), aligned(sin), rows, output.view(-1),
            batch * length, length, heads, *steps,
        )  # fmt: skip
        return output
