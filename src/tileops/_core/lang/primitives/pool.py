"""Pooling arithmetic."""

from __future__ import annotations

from tileops._core.lang.primitives.domain import positive
from tileops._core.lang.primitives.symbolic import maximum, select


def out(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Output length of a pooling along one axis, at least 0.

    Args:
        length: input length.
        kernel: taps of the window.
        stride: step between windows.
        padding: positions added at either end.
        dilation: distance between taps.
        ceil_mode: count a last window that runs over the end, unless it starts in the padding
            there.

    Raises:
        ValueError: kernel, stride or dilation is not above 0.

    Example:
        >>> out(6, 3, 2, 0, 1, False), out(6, 3, 2, 0, 1, True)
        (2, 3)
    """
    positive("pool.out", kernel=kernel, stride=stride, dilation=dilation)
    span = dilation * (kernel - 1) + 1
    slack = stride - 1 if ceil_mode else 0
    count = (length + 2 * padding - span + slack) // stride + 1
    if ceil_mode:
        starts_in_padding = (count - 1) * stride >= length + padding
        count = select(starts_in_padding, count - 1, count)
    result: int = maximum(count, 0)
    return result
