"""Work on 16-bit tensors in float32, in pieces that stay in the cache of a CPU.

Not for devices with memory of their own, where a piece would be a launch.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

PIECE = 1 << 17
"""Elements that are widened at once."""


def by_rows(function: Callable[..., Tensor], output: Tensor, *operands: Tensor) -> Tensor:
    """Writes a function of corresponding rows, rounded once.

    Args:
        function: of rows of all operands, of which it gives the rows of the result.
        output: the result, written.
        operands: with as many rows as the result.

    Returns:
        `output`.
    """
    rows, count = output.shape[0], max(operand.numel() for operand in operands)
    if not output.is_cpu or count <= PIECE:
        return output.copy_(function(*operands))
    step = max(1, PIECE * rows // count)
    for first in range(0, rows, step):
        part = slice(first, first + step)
        output[part].copy_(function(*(operand[part] for operand in operands)))
    return output
