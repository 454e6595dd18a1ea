"""Kernel interfaces of the sampling family and their plain-torch implementations.

Settings and random state stay on the device: nothing here waits for it. Not for TileLang programs,
which `programs` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops._kernels.philox import WORD, philox
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel

_WARP = 32
_BLOCKS = 132  # that run at once
_LEAST = 4096  # logits of a block that shares a row
_MOST = 1 << 22  # logits of a row whose weights can be added up
_VECTORS = 4  # a thread has in flight


def sharing(rows: int, n: int) -> int:
    """Blocks that share each of some rows of length `n`: as many as run at once, a power of two."""
    blocks = 8
    while blocks > 1 and (rows * blocks > _BLOCKS or n < blocks * _LEAST):
        blocks //= 2
    return blocks


def _refused_row(n: int | None) -> str | None:
    """Why a TileLang kernel does not filter rows of this length."""
    if not n or n >= _MOST:
        return "filters rows of known length, positive and below 2^22"
    return None


@dataclass(frozen=True)
class LogitMaskCall(CallSpec):
    """A filter of logits by rank, by probability, or by rank and then probability.

    Args:
        has_k: whether it is by rank.
        has_p: whether it is by probability.
        dtype: element type of the logits.
        n: length of a row on an accelerator; None where nobody asks.
        blocks: of a device that share a row.
    """

    has_k: bool
    has_p: bool
    dtype: torch.dtype
    n: int | None = None
    blocks: int = 1


class LogitMaskFwdInterface(KernelInterface):
    """Logits with all but the most probable ones set to -inf."""

    request = LogitMaskCall

    @abstractmethod
    def forward(self, logits: Tensor, k: Tensor | None, p: Tensor | None) -> Tensor:
        """Filter every row.

        Args:
            logits: `[B, V]` in `call.dtype`, contiguous, on `call.device`; read.
            k: `[B]` int32, contiguous, positive: logits of a row that stay, and with them all that
                equal the last; all where it is `V` or more; None exactly when `call.has_k` is
                false; read.
            p: `[B]` float32, contiguous: a logit stays while the probability of all logits above
                it is less, in a softmax over what `k` left, all of which stays where it is 1 or
                more; None exactly when `call.has_p` is false; read.

        Returns:
            A new contiguous `[B, V]` in `call.dtype`: logits that stay are bit-identical, others
            -inf. Probabilities and their sums are float32 or wider. `k` counts a NaN as above all
            others, and leaves none unless it leaves the row untouched; where there is no softmax,
            since a NaN or infinity is left to it or nothing but -inf, `p` below 1 masks the row.
        """


class LogitMaskPortableKernel(PortableKernel[LogitMaskCall], LogitMaskFwdInterface):
    """Filters by torch, which sorts each row."""

    def forward(self, logits: Tensor, k: Tensor | None, p: Tensor | None) -> Tensor:
        """Filter every row."""
        last = logits.shape[1] - 1
        if k is not None and p is None and k.is_cpu and k.numel():
            most = min(int(k.max()), last + 1)  # known here without waiting for a device
            ordered = logits.topk(most, -1).values
        else:
            ordered = logits.sort(-1, descending=True).values
        stays = None
        if k is not None:
            place = (k.long() - 1).clamp(max=last)[:, None]
            threshold, all_stay = ordered.gather(1, place), k[:, None] > last
            stays = (logits >= threshold) | all_stay
            ordered = ordered.masked_fill(~((ordered >= threshold) | all_stay), -torch.inf)
        if p is not None:
            count = (self._mass_above(ordered) < p[:, None]).sum(1, keepdim=True)
            threshold = ordered.gather(1, (count - 1).clamp(min=0))
            probable = (logits >= threshold) & (count > 0) | (p[:, None] >= 1)
            stays = probable if stays is None else stays & probable
        return logits if stays is None else logits.masked_fill(~stays, -torch.inf)

    @staticmethod
    def _mass_above(ordered: Tensor) -> Tensor:
        """The probability of all logits above each, of rows in descending order."""
        share = torch.softmax(ordered.float(), -1)
        before = torch.cumsum(share, -1) - share
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        # Equal logits share what lies above the first of them; elsewhere it only grows.
        return torch.where(first, before, -1).cummax(-1).values


class LogitMaskRadixKernel(Kernel, LogitMaskFwdInterface):
    """Filters by a block for each row, or several, which find the last logit that stays by digits.

    Args:
        dtype: element type of the logits.
        has_k: whether a row is filtered by rank.
        has_p: whether it is filtered by probability.
        vector: elements of one access, a divisor of the rows' length.
        blocks: that share a row.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(
        self, dtype: torch.dtype, has_k: bool, has_p: bool, vector: int, blocks: int
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.has_k, self.has_p = has_k, has_p
        self.vector, self.blocks = vector, blocks

    @classmethod
    def refusal(cls, call: LogitMaskCall) -> str | None:
        """Refuses empty rows, and those whose weights its sums cannot hold."""
        return _refused_row(call.n) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: LogitMaskCall) -> tuple[Hashable, Callable[[], LogitMaskRadixKernel]]:
        """One build for all rows that allow the same accesses and are shared alike."""
        assert call.n is not None
        vector = widest_access(call.n, call.dtype)
        constants = call.dtype, call.has_k, call.has_p, vector, call.blocks
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """A whole block, and as many bytes in flight as its registers hold."""
        return {"threads": 1024, "unroll": _VECTORS * 4 // max(4, self.vector)}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.sampling.programs import Masking, build_logit_mask

        how = Masking(dtype_name(self.dtype), self.vector, self.blocks, **config)
        return build_logit_mask(how, has_k=self.has_k, has_p=self.has_p).compile(HOPPER)

    def forward(self, logits: Tensor, k: Tensor | None, p: Tensor | None) -> Tensor:
        """Filter every row."""
        masked = torch.empty_like(logits)
        if len(logits):
            settings = (aligned(setting) for setting in (k, p) if setting is not None)
            self.program()(aligned(logits), *settings, masked)
        return masked


@dataclass(frozen=True)
class MinPMaskCall(CallSpec):
    """A filter of logits by probability relative to the most probable one.

    Args:
        dtype: element type of the logits.
        n: length of a row on an accelerator; None where nobody asks.
        blocks: of a device that share a row.
    """

    dtype: torch.dtype
    n: int | None = None
    blocks: int = 1


class MinPMaskFwdInterface(KernelInterface):
    """Logits with those below `max + log(min_p)` set to -inf."""

    request = MinPMaskCall

    @abstractmethod
    def forward(self, logits: Tensor, min_p: Tensor) -> Tensor:
        """Filter every row.

        Args:
            logits: `[B, V]` in `call.dtype`, contiguous, on `call.device`; read.
            min_p: `[B]` float32, contiguous; 0 masks nothing, 1 keeps the maxima only; read.

        Returns:
            A new contiguous `[B, V]` in `call.dtype`: logits that stay are bit-identical, others
            -inf. The comparison is float32.
        """


class MinPMaskPortableKernel(PortableKernel[MinPMaskCall], MinPMaskFwdInterface):
    """The filter by torch."""

    def forward(self, logits: Tensor, min_p: Tensor) -> Tensor:
        """Filter every row."""
        threshold = logits.amax(-1, keepdim=True).float() + min_p[:, None].log()
        stays = (logits.float() >= threshold) | (min_p[:, None] == 0)
        return logits.masked_fill(~stays, -torch.inf)


class MinPMaskTileKernel(Kernel, MinPMaskFwdInterface):
    """The filter by a block for each row, or several, which read it twice.

    Args:
        dtype: element type of the logits.
        vector: elements of one access, a divisor of the rows' length.
        blocks: that share a row.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, dtype: torch.dtype, vector: int, blocks: int) -> None:
        super().__init__()
        self.dtype, self.vector, self.blocks = dtype, vector, blocks

    @classmethod
    def refusal(cls, call: MinPMaskCall) -> str | None:
        """Refuses rows of unknown length."""
        return _refused_row(call.n) or super().refusal(call)

    @classmethod
    def entry_for(cls, call: MinPMaskCall) -> tuple[Hashable, Callable[[], MinPMaskTileKernel]]:
        """One build for all rows that allow the same accesses and are shared alike."""
        assert call.n is not None
        constants = call.dtype, widest_access(call.n, call.dtype), call.blocks
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """A whole block, and as many bytes in flight as its registers hold."""
        return {"threads": 1024, "unroll": _VECTORS}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.sampling.programs import Masking, build_min_p_mask

        how = Masking(dtype_name(self.dtype), self.vector, self.blocks, **config)
        return build_min_p_mask(how).compile(HOPPER)

    def forward(self, logits: Tensor, min_p: Tensor) -> Tensor:
        """Filter every row."""
        masked = torch.empty_like(logits)
        if len(logits):
            self.program()(aligned(logits), aligned(min_p), masked)
        return masked


@dataclass(frozen=True)
class SamplingCall(CallSpec):
    """A draw from each row of weights.

    Args:
        n: length of a row on an accelerator; None where nobody asks.
    """

    n: int | None = None


class SamplingFwdInterface(KernelInterface):
    """For each row, the first place whose running sum exceeds `u * total`.

    `u` of row `r` is `2^-24` times the upper 24 bits of the first word of Philox4x32-10 with the
    key `seed` and the counter `(offset, r)`, each of 64 bits, low word first.
    """

    request = SamplingCall

    @abstractmethod
    def forward(self, probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        """Draw from every row.

        Args:
            probs: `[B, V]` float32, contiguous, on `call.device`: weights, which need not add up
                to 1; what is below 0 counts as 0; read.
            seed: `[1]` int64; read.
            offset: `[1]` int64; read.

        Returns:
            A new contiguous `[B]` int32. A weight of 0 is never drawn; a row without any other
            gives its last place, -1 where it is empty. Sums are float32 or wider.
        """


class SamplingPortableKernel(PortableKernel[SamplingCall], SamplingFwdInterface):
    """Draws by torch, with running sums in float64."""

    def forward(self, probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        """Draw from every row."""
        if not probs.shape[1]:
            return seed.new_full((probs.shape[0],), -1, dtype=torch.int32)
        row = torch.arange(probs.shape[0], device=probs.device)
        counter = (offset & WORD, (offset >> 32) & WORD, row, row >> 32)
        first, *_ = philox((seed & WORD, (seed >> 32) & WORD), counter)
        uniform = (first >> 8).double() * 2.0**-24
        running = probs.double().clamp_(min=0).cumsum(-1)
        target = uniform[:, None] * running[:, -1:]
        place = torch.searchsorted(running, target, right=True)[:, 0]
        return place.clamp(max=probs.shape[1] - 1).int()


class SamplingTileKernel(Kernel, SamplingFwdInterface):
    """Draws by a block for each row, which reads it once, and a small part of it again.

    Args:
        vector: elements of one access, a divisor of the rows' length.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, vector: int) -> None:
        super().__init__()
        self.vector = vector

    @classmethod
    def refusal(cls, call: SamplingCall) -> str | None:
        """Refuses empty rows, and places that do not fit its keys."""
        if not call.n or call.n >= 1 << 29:
            return "draws from rows of known length, positive and below 2^29"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: SamplingCall) -> tuple[Hashable, Callable[[], SamplingTileKernel]]:
        """One build for all rows that allow the same accesses."""
        assert call.n is not None
        vector = widest_access(call.n, torch.float32)
        return vector, lambda: cls(vector)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """As many bytes in flight as one block can have."""
        return {"threads": 1024, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.sampling.programs import build_sampling

        return build_sampling(self.vector, **config).compile(HOPPER)

    def forward(self, probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        """Draw from every row."""
        drawn = seed.new_empty(probs.shape[0], dtype=torch.int32)
        left, cuts = probs.shape[1] // self.vector, 0
        while left > _WARP or not cuts:  # accesses of a slice
            left, cuts = -(-left // (self.config["threads"] // _WARP)), cuts + 1
        if len(drawn):
            self.program()(aligned(probs), aligned(seed), aligned(offset), drawn, cuts)
        return drawn
