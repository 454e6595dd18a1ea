"""Work on tensors of narrow elements in float32, in pieces that stay in the cache of a CPU.

Not for devices with memory of their own, where a piece would be a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

PIECE = 1 << 19
"""Elements that a thread holds at once, of all tensors together: 2 MiB in float32."""


def piece_length(length: int, count: int) -> int:
    """How many places along an axis make a piece, of tensors with so many elements in all."""
    return max(1, PIECE * torch.get_num_threads() * length // max(count, 1))


def by_rows(
    function: Callable[..., object], output: Tensor, *operands: Tensor, axis: int = 0
) -> Tensor:
    """Writes a function of corresponding rows, computed in float32 and rounded once.

    Args:
        function: writes the rows of the result, its first argument, from those of all operands,
            which it only reads. All are float32, or as wide as they are.
        output: the result, written.
        operands: in the dtype of the result, with as many rows as it.
        axis: along which rows follow one another.

    Returns:
        `output`.
    """
    rows, tensors = output.shape[axis], (output, *operands)
    count = sum(tensor.numel() for tensor in tensors)
    step = min(rows, piece_length(rows, count)) if output.is_cpu else rows
    pieces: Iterable[Sequence[Tensor]] = [tensors]
    if step < rows:
        pieces = zip(*(tensor.split(step, axis) for tensor in tensors), strict=True)
    wide = torch.promote_types(output.dtype, torch.float32)
    if output.dtype is wide:
        for piece in pieces:
            function(*piece)
        return output
    whole = [tensor.new_empty(tensor.narrow(axis, 0, step).shape, dtype=wide) for tensor in tensors]
    for piece in pieces:
        length = piece[0].shape[axis]
        if length < step:
            whole = [each.narrow(axis, 0, length) for each in whole]
        for each, part in zip(whole[1:], piece[1:], strict=True):
            each.copy_(part)
        function(*whole)
        piece[0].copy_(whole[0])
    return output
