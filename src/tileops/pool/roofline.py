"""FLOPs and bytes of adaptive pooling, whose windows overlap by what extents have in common."""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


def adaptive_average(call: SignatureCall) -> tuple[int, int]:
    """One addition per tap and one division per output."""
    shape, _ = call.tensors["output"]
    return _taps(call) + prod(shape), call.derived_bytes()


def adaptive_maximum(call: SignatureCall) -> tuple[int, int]:
    """One comparison per tap."""
    return _taps(call), call.derived_bytes()


def _taps(call: SignatureCall) -> int:
    """Elements of all windows: per axis, `L + O - gcd(L, O)`."""
    index = call.indices
    axes = ((index["H_in"], index["H_out"]), (index["W_in"], index["W_out"]))
    per_plane = prod(length + out - gcd(length, out) for length, out in axes)
    return int(prod(index["B"]) * index["C"] * per_plane)
