"""Work on tensors of narrow elements in float32, in pieces that stay in the cache of a CPU.

Not for devices with memory of their own, where a piece would be a launch, nor for tensors that
need no conversion: those are worked on whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

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
    memory = _memory(tensor, axis, step)
    for piece in tensor.split(step, axis):
        yield _part(memory, piece).copy_(piece)


def by_rows(
    function: Callable[..., object],
    outputs: Sequence[Tensor],
    operands: Sequence[Tensor],
    axis: int = 0,
) -> None:
    """Writes functions of corresponding rows, computed in float32 and rounded once.

    Args:
        function: writes the rows of the results, its first arguments, from those of the operands,
            which its last argument iterates over and which it only reads. All are float32, or as
            wide as they are. There is memory for one operand more than there are results: the
            first operands lie where the results go, and each when it is taken where the first
            of the others was.
        outputs: the results, written; of the shape of the first operand.
        operands: in the dtype of the results, with as many rows as they, none of them larger.
        axis: along which rows follow one another.
    """
    first, count = operands[0], len(outputs)
    if torch.promote_types(first.dtype, torch.float32) is first.dtype:
        function(*outputs, iter(operands))
        return
    step = piece_length(first, axis)
    memory = [_memory(first, axis, step) for _ in range(count + 1)]
    for pieces in zip(*(each.split(step, axis) for each in (*outputs, *operands)), strict=True):
        places, given = pieces[:count], zip(cycle(memory), pieces[count:], strict=False)
        results = [_part(room, place) for room, place in zip(memory, places, strict=False)]
        function(*results, (_part(room, piece).copy_(piece) for room, piece in given))
        for place, result in zip(places, results, strict=True):
            place.copy_(result)


def _memory(tensor: Tensor, axis: int, step: int) -> Tensor:
    """Room for the largest piece of a tensor in float32 or wider."""
    wide = torch.promote_types(tensor.dtype, torch.float32)
    return tensor.new_empty(tensor.narrow(axis, 0, step).numel(), dtype=wide)


def _part(memory: Tensor, piece: Tensor) -> Tensor:
    """As much of some memory as a piece takes, in its shape."""
    return memory[: piece.numel()].view(piece.shape)
