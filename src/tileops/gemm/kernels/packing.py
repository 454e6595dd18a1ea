"""Unsigned 4-bit codes, two to a byte, in two orders.

The plain order has the code of an even column in the low half of a byte, the odd one beside it. The
order of packed weights turns each eight codes, which fill 32 bits: even columns fill the low half
of the word and odd ones the high half, so that one mask takes two neighbouring columns out of a
word, sixteen bits apart. Every function leaves its argument as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column, of eight, whose code each place of a packed weight's word holds."""

_INVERSE = tuple(ORDER.index(column) for column in range(len(ORDER)))


def pack(codes: Tensor) -> Tensor:
    """Codes below 16, `[…, K]` uint8, as `[…, K // 2]` in plain order."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack(packed: Tensor) -> Tensor:
    """The codes `[…, K]` of `[…, K // 2]` in plain order."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def repack(packed: Tensor) -> Tensor:
    """Plain order to the order of packed weights; K is a multiple of 8."""
    return pack(_turned(unpack(packed), ORDER))


def unrepack(packed: Tensor) -> Tensor:
    """The order of packed weights to plain order."""
    return pack(_turned(unpack(packed), _INVERSE))


def _turned(codes: Tensor, order: tuple[int, ...]) -> Tensor:
    """Each eight codes in another order."""
    words = codes.unflatten(-1, (-1, len(order)))
    return torch.stack([words[..., place] for place in order], -1).flatten(-2)
