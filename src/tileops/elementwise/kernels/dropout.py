"""Interface of dropout and its implementations."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned
from tileops._kernels.philox import WORD, philox, words
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class DropoutCall(CallSpec):
    """Dropout of elements of a type."""

    dtype: torch.dtype


class DropoutFwdInterface(KernelInterface):
    """`input / (1 - p)` where an element is kept, else 0.

    Element `i`, counted in the order of axes, is kept where word `i % 4` of Philox4x32-10 with the
    key `seed` and the counter `i // 4` (64 bits each, the low word first) is at least
    `p * 2^32`.
    """

    request = DropoutCall

    @abstractmethod
    def forward(self, input: Tensor, p: float, seed: int) -> Tensor:
        """Drop elements.

        Args:
            input: any shape, `call.dtype`, contiguous, on `call.device`; read.
            p: the share that is dropped, in `[0, 1]`: 0 copies, 1 writes zeros and reads nothing.
            seed: any integer, modulo `2^64`.

        Returns:
            A new contiguous tensor of its shape in `call.dtype`, scaled in float32, rounded once.
        """


def _least(p: float) -> int:
    """The least word of an element that is kept; above all words where none is."""
    return math.ceil(p * 2**32)


class DropoutPortableKernel(PortableKernel[DropoutCall], DropoutFwdInterface):
    """Dropout by torch, in pieces whose random words stay in the cache."""

    PIECE = 1 << 17
    """Elements whose random words are drawn at once; a multiple of 4."""

    def forward(self, input: Tensor, p: float, seed: int) -> Tensor:
        """Drop elements."""
        if p == 0:
            return input.clone()
        if p == 1:
            return torch.zeros_like(input)
        output = torch.empty_like(input)
        given, made = input.view(-1), output.view(-1)
        for start in range(0, given.numel(), self.PIECE):
            piece = slice(start, start + self.PIECE)
            made[piece] = _dropped(given[piece], start, p, seed)
        return output


def _dropped(given: Tensor, start: int, p: float, seed: int) -> Tensor:
    """The elements that begin at `start`, a multiple of 4, kept and scaled or 0."""
    count, least = given.numel(), _least(p)
    block = torch.arange(start // 4, (start + count + 3) // 4, device=given.device)
    drawn = philox(words(seed), (block & WORD, block >> 32, 0, 0))
    kept = torch.stack([word >= least for word in drawn], -1).view(-1)[:count]
    return torch.where(kept, given.float() / (1 - p), 0.0)


class DropoutTileKernel(Kernel, DropoutFwdInterface):
    """Dropout in one pass over memory, with random words in registers.

    Args:
        dtype: element type.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    @classmethod
    def entry_for(cls, call: DropoutCall) -> tuple[Hashable, Callable[[], DropoutTileKernel]]:
        """One build for all sizes, shares and seeds."""
        dtype = call.dtype
        return dtype, lambda: cls(dtype)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """One access a thread."""
        return {"threads": 128}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise.programs import build_dropout

        vector = BOUNDARY // self.dtype.itemsize
        return build_dropout(dtype_name(self.dtype), vector, **config).compile(HOPPER)

    def forward(self, input: Tensor, p: float, seed: int) -> Tensor:
        """Drop elements."""
        least = _least(p)
        if least == 0:
            return input.clone()
        if least > WORD:
            return torch.zeros_like(input)
        output = torch.empty_like(input)
        if input.numel():
            key = (seed + 2**63) % 2**64 - 2**63  # as a signed word
            line = aligned(input).view(-1)
            self.program()(line, output.view(-1), key, least, 1 / (1 - p))
        return output
