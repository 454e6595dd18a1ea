"""FLOPs of the Hadamard transform: a logarithm, which expressions of specs do not have."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


def hadamard(call: SignatureCall) -> tuple[int, int]:
    """One addition per element and butterfly, a dense product with the base, and the scale."""
    n, base = call.indices["n"], call.indices["base_order"]
    steps = (n // base).bit_length() - 1
    return prod(call.indices["B"]) * n * (steps + base), call.derived_bytes()
