"""Rotary embeddings: an op gives its frequencies, the bases keep tables and rotate.

Pair `i` of a head at position `p` is turned by `p * f_i`. Frequencies, angles, cosines and sines
are float64 and rounded to float32 once; the rotation is float32. Tables are state of the instance,
one per head width and device, and grow with the longest sequence seen.

A rotation's gradient is the rotation by the opposite angles, with the same amplitude: a backward op
is the forward op with its sines negated.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from tileops._core.devices import made_to_last
from tileops._core.op import Op
from tileops.rope.kernels import (
    RotaryCall,
    RotaryFwdInterface,
    RotaryPortableKernel,
    RotaryTileKernel,
    access_to,
)

__all__ = [
    "RoPEFwdOp",
    "RoPEBwdOp",
    "RoPELlama31FwdOp",
    "RoPELlama31BwdOp",
    "YaRNFwdOp",
    "YaRNBwdOp",
    "LongRoPEFwdOp",
    "LongRoPEBwdOp",
    "RoPENeoxPositionIdsFwdOp",
    "RoPENeoxPositionIdsBwdOp",
]

InputLayout = Literal["1d", "2d"]
"""`"1d"`: one head, `[S, D]`; `"2d"`: `[B, S, H, D]`."""


STEEP_RAMP = 0.001
"""Length of a ramp whose ends coincide, in pairs."""


class Table(NamedTuple):
    """Cosines and sines of positions from 0 on, `[positions, pairs]`; what they were made from."""

    cos: Tensor
    sin: Tensor
    factors: Tensor | None
    version: int


class _RotaryOp(Op):
    """Rotates by the angles of `position * frequencies`, scaled by an amplitude."""

    kernel_types = {"tile": RotaryTileKernel, "portable": RotaryPortableKernel}
    interfaces = {"rotary": RotaryFwdInterface}
    rope_layout: Literal["neox", "interleaved"] = "neox"
    rescale_factors: Tensor | None = None
    direction: ClassVar[Literal[1, -1]] = 1
    """The sign of the angles."""

    def __init__(self, base: float, *, target: str | None = None) -> None:
        self.base = base
        self.tables: dict[tuple[int, torch.device], Table] = {}
        super().__init__(target=target)

    def call(self, x: Tensor, width: int, positions: Tensor | None) -> RotaryCall:
        """The call spec for rotating the first `width` channels of `[B, S, H, D]`."""
        access = None
        if x.is_cuda:
            access = access_to(x, width, self.rope_layout == "interleaved", positions)
        return RotaryCall(
            self.rope_layout,
            x.shape[3],
            width,
            positions is not None,
            x.dtype,
            access,
            device=x.device,
        )

    def frequencies(self, width: int, device: torch.device) -> Tensor:
        """The angle per position of each pair of a head of `width` channels, float64."""
        pair = torch.arange(0, width, 2, dtype=torch.float64, device=device)
        return torch.pow(self.base, -pair / width)

    def amplitude(self) -> float:
        """Factor of cosines and sines."""
        return 1.0

    def table(self, length: int, width: int, device: torch.device) -> Table:
        """The table of positions below `length`, or of more."""
        known = self.tables.get((width, device))
        factors = self.rescale_factors
        version = 0 if factors is None or factors.is_inference() else factors._version
        if (
            known is None
            or len(known.cos) < length
            or known.factors is not factors
            or known.version != version
        ):
            count = _rounded_up(length)
            cos, sin = made_to_last(
                device, lambda: self.rows(torch.arange(count, device=device), width)
            )
            known = self.tables[width, device] = Table(cos, sin, factors, version)
        return known

    def rows(self, positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of some positions, float32."""
        turns = self.direction * positions.double()
        angle = turns[:, None] * self.frequencies(width, positions.device)
        amplitude = self.amplitude()
        return (amplitude * angle.cos()).float(), (amplitude * angle.sin()).float()


def _rounded_up(length: int) -> int:
    """The next power of two, so that a sequence that grows by one rarely needs a new table."""
    return 1 << max(length - 1, 0).bit_length()


class _SequenceRotaryOp(_RotaryOp):
    """Rotates sequences whose positions count from 0."""

    def __init__(
        self, input_layout: InputLayout, base: float, *, target: str | None = None
    ) -> None:
        self.input_layout = input_layout
        super().__init__(base, target=target)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate `x`."""
        return self.rotated(x)

    def rotated(self, x: Tensor) -> Tensor:
        """`x` rotated."""
        heads = x if self.input_layout == "2d" else x[None, :, None]
        length, width = heads.shape[1], heads.shape[3]
        call = self.call(heads, width, None)
        cos, sin, *_ = self.table(length, width, x.device)
        return self.kernel_for("rotary", call)(heads, cos, sin, None).view(x.shape)


class RoPEFwdOp(_SequenceRotaryOp):
    """Rotary embedding with the frequencies `base^(-2i / D)`.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset: tokens that are decoded,
    or packed, have positions of their own and use `RoPENeoxPositionIdsFwdOp`.

    Pair `i` of a head is channels `i` and `i + D / 2` in the layout `neox`, by halves, and channels
    `2i` and `2i + 1` in the layout `interleaved`.

    Source: Su et al., "RoFormer", 2021.
    """

    def __init__(
        self,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        input_layout: InputLayout = "1d",
        base: float = 10000.0,
        *,
        target: str | None = None,
    ) -> None:
        self.rope_layout = rope_layout
        super().__init__(input_layout, base, target=target)


class RoPEBwdOp(RoPEFwdOp):
    """Gradient of `RoPEFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    direction = -1

    def forward(self, grad_out: Tensor) -> Tensor:
        """Rotate `grad_out` back."""
        return self.rotated(grad_out)


class RoPELlama31FwdOp(_SequenceRotaryOp):
    """Rotary embedding, neox layout, with the frequencies of Llama 3.1.

    With the wave length `w = 2π / f`, frequencies with `w < original / high` stay, those with
    `w > original / low` are divided by `scale_factor`, and those between are blended by
    `t = (original / w - low) / (high - low)` into `(1 - t) f / scale_factor + t f`.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: the reference implementation of Llama 3.1.
    """

    def __init__(
        self,
        input_layout: InputLayout = "1d",
        base: float = 10000.0,
        scale_factor: float = 8.0,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        original_max_position: int = 8192,
        *,
        target: str | None = None,
    ) -> None:
        self.scale_factor = scale_factor
        self.low_freq_factor = low_freq_factor
        self.high_freq_factor = high_freq_factor
        self.original_max_position = original_max_position
        super().__init__(input_layout, base, target=target)

    def frequencies(self, width: int, device: torch.device) -> Tensor:
        """Long waves slowed down."""
        plain = super().frequencies(width, device)
        slow, wave = plain / self.scale_factor, 2 * math.pi / plain
        low, high = self.low_freq_factor, self.high_freq_factor
        original = self.original_max_position
        share = (original / wave - low) / (high - low)
        blended = (1 - share) * slow + share * plain
        slowed = torch.where(wave > original / low, slow, blended)
        return torch.where(wave < original / high, plain, slowed)


class RoPELlama31BwdOp(RoPELlama31FwdOp):
    """Gradient of `RoPELlama31FwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    direction = -1

    def forward(self, grad_out: Tensor) -> Tensor:
        """Rotate `grad_out` back."""
        return self.rotated(grad_out)


class YaRNFwdOp(_SequenceRotaryOp):
    """Rotary embedding, neox layout, with frequencies interpolated by parts.

    Pair `c(β) = D ln(original / (2πβ)) / (2 ln base)` turns `β` times over the original length.
    From `floor(c(beta_fast))` to `ceil(c(beta_slow))`, clipped to `[0, D - 1]`, frequencies blend
    linearly from `f` into `f / scale`. Cosines and sines are scaled by
    `attn_factor * (0.1 ln(scale) + 1)`, the bracket being 1 for `scale <= 1`, so that position 0
    is not the identity.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: Peng et al., "YaRN", 2023.
    """

    def __init__(
        self,
        input_layout: InputLayout = "1d",
        base: float = 10000.0,
        scale: float = 16.0,
        original_max_position: int = 4096,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attn_factor: float = 1.0,
        *,
        target: str | None = None,
    ) -> None:
        self.scale = scale
        self.original_max_position = original_max_position
        self.beta_fast = beta_fast
        self.beta_slow = beta_slow
        self.attn_factor = attn_factor
        super().__init__(input_layout, base, target=target)

    def frequencies(self, width: int, device: torch.device) -> Tensor:
        """Slow frequencies interpolated, fast ones kept."""
        plain = super().frequencies(width, device)
        first = math.floor(self._pair(self.beta_fast, width))
        last = math.ceil(self._pair(self.beta_slow, width))
        pair = torch.arange(width // 2, dtype=torch.float64, device=device)
        ramp = ((pair - first) / (last - first or STEEP_RAMP)).clamp(0, 1)
        return (1 - ramp) * plain + ramp * plain / self.scale

    def amplitude(self) -> float:
        """Grows with the scale."""
        return self.attn_factor * (0.1 * math.log(self.scale) + 1 if self.scale > 1 else 1.0)

    def _pair(self, turns: float, width: int) -> float:
        """The pair that turns so often over the original length, within the head."""
        logarithm = math.log(self.original_max_position) - math.log(2 * math.pi) - math.log(turns)
        return min(max(width * logarithm / (2 * math.log(self.base)), 0), width - 1)


class YaRNBwdOp(YaRNFwdOp):
    """Gradient of `YaRNFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    direction = -1

    def forward(self, grad_out: Tensor) -> Tensor:
        """Rotate `grad_out` back."""
        return self.rotated(grad_out)


class LongRoPEFwdOp(_SequenceRotaryOp):
    """Rotary embedding, neox layout, with each frequency divided by a factor of its own.

    With `r = max / original`, cosines and sines are scaled by `sqrt(1 + ln r / ln original)` for
    `r > 1`, so that position 0 is not the identity. An infinite factor stops its pair, a NaN
    yields NaN. The factors are read when a table is made; another tensor gives another table, and
    so does a change in place, which inference tensors do not show.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: Ding et al., "LongRoPE", 2024.
    """

    def __init__(
        self,
        input_layout: InputLayout = "1d",
        base: float = 10000.0,
        rescale_factors: Tensor | None = None,
        max_position_embeddings: int = 4096,
        original_max_position_embeddings: int = 4096,
        *,
        target: str | None = None,
    ) -> None:
        self.rescale_factors = rescale_factors
        self.max_position_embeddings = max_position_embeddings
        self.original_max_position_embeddings = original_max_position_embeddings
        super().__init__(input_layout, base, target=target)

    def frequencies(self, width: int, device: torch.device) -> Tensor:
        """The plain frequencies divided by the factors."""
        plain = super().frequencies(width, device)
        if self.rescale_factors is None:
            return plain
        return plain / self.rescale_factors.to(device, torch.float64)

    def amplitude(self) -> float:
        """Grows with the ratio of the lengths."""
        original = self.original_max_position_embeddings
        ratio = self.max_position_embeddings / original
        return math.sqrt(1 + math.log(ratio) / math.log(original)) if ratio > 1 else 1.0


class LongRoPEBwdOp(LongRoPEFwdOp):
    """Gradient of `LongRoPEFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    direction = -1

    def forward(self, grad_out: Tensor) -> Tensor:
        """Rotate `grad_out` back."""
        return self.rotated(grad_out)


class RoPENeoxPositionIdsFwdOp(_RotaryOp):
    """Rotary embedding of packed tokens, neox layout, at given positions.

    Decoding uses it too, with the position of each new token. Pair `i` is channels `i` and
    `i + rotary_dim / 2`. The first `rotary_dim` channels are rotated, by default all; the others
    arrive bit for bit. Positions are below `max_position`, which is the caller's duty: checking it
    would wait for the device.

    Source: Su et al., "RoFormer", 2021.
    """

    LONGEST_TABLE = 1 << 18
    """Rows of the longest table that is kept; beyond, each call computes the rows it needs."""

    def __init__(
        self,
        max_position: int,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        self.max_position = max_position
        self.rotary_dim = rotary_dim
        super().__init__(base, target=target)

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """Rotate `x`."""
        return self.rotated(x, position_ids)

    def rotated(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """`x` rotated."""
        head_dim = x.shape[2]
        width = head_dim if self.rotary_dim is None else self.rotary_dim
        tabled = self.max_position <= self.LONGEST_TABLE
        if tabled:
            cos, sin, *_ = self.table(self.max_position, width, x.device)
        else:
            cos, sin = self.rows(position_ids, width)
        positions = position_ids.contiguous() if tabled else None
        call = self.call(x[None], width, positions)
        return self.kernel_for("rotary", call)(x[None], cos, sin, positions)[0]


class RoPENeoxPositionIdsBwdOp(RoPENeoxPositionIdsFwdOp):
    """Gradient of `RoPENeoxPositionIdsFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    direction = -1

    def forward(self, grad_out: Tensor, position_ids: Tensor) -> Tensor:
        """Rotate `grad_out` back."""
        return self.rotated(grad_out, position_ids)
