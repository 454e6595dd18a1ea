"""FLOPs of filters that depend on each row's `k`; every tensor moves once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


def top_k_mask(call: SignatureCall) -> tuple[int, int]:
    """Two comparisons per logit, one to find the threshold and one to mask; 0 for `k >= V`."""
    return _top_k(call), call.derived_bytes()


def top_k_top_p_mask(call: SignatureCall) -> tuple[int, int]:
    """Beyond top-k, 7 per survivor for softmax, running sum and comparison, 1 to mask a logit."""
    width: int = call.indices["V"]
    ks = call.metadata_values("k")
    survivors = sum(min(k, width) for k in ks)
    return _top_k(call) + 7 * survivors + width * len(ks), call.derived_bytes()


def _top_k(call: SignatureCall) -> int:
    """Two for each logit of a row from which something may be removed."""
    width: int = call.indices["V"]
    return sum(2 * width for k in call.metadata_values("k") if k < width)
