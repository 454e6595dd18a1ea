"""FLOPs of the Fourier transform: a logarithm, which expressions of specs do not have."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


def fft(call: SignatureCall) -> tuple[int, int]:
    """Five per element and butterfly."""
    n: int = call.indices["n"]
    return 5 * prod(call.indices["B"]) * n * (n.bit_length() - 1), call.derived_bytes()
