"""Random numbers that depend on a key and a counter only: Philox4x32-10 in plain torch.

For portable kernels whose random results may not depend on the device, the shape or the order of
evaluation. Not for initialising test data.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

WORD = 0xFFFFFFFF
"""Mask of one 32-bit word."""
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

Word: TypeAlias = "Tensor | int"
"""A number in `[0, 2^32)` for each draw, or one for all of them."""


def philox(key: tuple[Word, Word], counter: tuple[Word, Word, Word, Word]) -> tuple[Tensor, ...]:
    """Four 32-bit words for each counter.

    Args:
        key: two words, each of them a tensor (int64) or one for all counters.
        counter: four words likewise; tensors broadcast.

    Returns:
        Four words in `[0, 2^32)`, int64.
    """
    a, b, c, d = map(torch.as_tensor, counter)
    for step in range(_ROUNDS):
        first, second = ((k + step * by) & WORD for k, by in zip(key, _KEY_STEPS, strict=True))
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        # Products of two words wrap in int64; both of their words are right nevertheless.
        a, b, c, d = (
            ((right >> 32) & WORD) ^ b ^ first,
            right & WORD,
            ((left >> 32) & WORD) ^ d ^ second,
            left & WORD,
        )
    return a, b, c, d


def words(value: int) -> tuple[int, int]:
    """The low and the high word of an integer modulo 2^64."""
    return value & WORD, (value >> 32) & WORD
