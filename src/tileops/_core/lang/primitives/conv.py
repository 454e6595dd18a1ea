"""Convolution arithmetic."""

from __future__ import annotations

from tileops._core.lang.primitives.domain import positive


def out(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output length of a convolution along one axis; negative when the window does not fit.

    Args:
        length: input length.
        kernel: taps of the window.
        stride: step between windows.
        padding: zeros added at either end.
        dilation: distance between taps.

    Raises:
        ValueError: kernel, stride or dilation is not above 0.

    Example:
        >>> out(9, 3, 2, 0, 1)
        4
    """
    positive("conv.out", kernel=kernel, stride=stride, dilation=dilation)
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
