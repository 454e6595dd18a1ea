"""Work on tensors of narrow elements in float32, in pieces that stay in the cache of a CPU.

Not for devices with memory of their own, where a piece would be a launch, nor for tensors that
need no conversion: those are worked on whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

PIECE = 1 << 18
"""Elements of each tensor that a thread holds at once: 1 MiB in float32."""


def piece_length(tensor: Tensor, axis: int) -> int:
    """How many places along an axis make a piece of a tensor, all pieces about as long."""
    length = tensor.shape[axis]
    count = tensor.numel() // (PIECE * torch.get_num_threads()) if tensor.is_cpu else 1
    return -(-length // max(count, 1))


def widened(tensor: Tensor, axis: int, step: int) -> Iterator[Tensor]:
    """The pieces of a tensor in float32 or wider, each in the memory of the one before."""
    wide = torch.promote_types(tensor.dtype, torch.float32)
    whole = tensor.new_empty(tensor.narrow(axis, 0, step).shape, dtype=wide)
    for piece in tensor.split(step, axis):
        yield whole.narrow(axis, 0, piece.shape[axis]).copy_(piece)


def by_rows(
    function: Callable[..., object],
    outputs: Sequence[Tensor],
    operands: Sequence[Tensor],
    axis: int = 0,
) -> None:
    """Writes functions of corresponding rows, computed in float32 and rounded once.

    Args:
        function: writes the rows of the results, its first arguments, from those of all operands,
            which it only reads otherwise. All are float32, or as wide as they are. A result may
            lie in the memory of the operand of its own number, so that nothing may be read there
            after it is written.
        outputs: the results, written; of the shapes of the first operands.
        operands: in the dtype of the results, with as many rows as they, of any strides.
        axis: along which rows follow one another.
    """
    if torch.promote_types(operands[0].dtype, torch.float32) is operands[0].dtype:
        function(*outputs, *operands)
        return
    step = piece_length(operands[0], axis)
    places = zip(*(output.split(step, axis) for output in outputs), strict=True)
    pieces = zip(*(widened(operand, axis, step) for operand in operands), strict=True)
    for place, piece in zip(places, pieces, strict=True):
        results = piece[: len(place)]
        function(*results, *piece)
        for part, result in zip(place, results, strict=True):
            part.copy_(result)
