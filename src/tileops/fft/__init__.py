"""Discrete Fourier transforms."""

from tileops.fft.ops import *  # noqa: F403
from tileops.fft.ops import __all__ as __all__
