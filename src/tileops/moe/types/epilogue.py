"""What is done to the reduced rows of a routed layer before they are rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RoutingEpilogueSpec:
    """The epilogue of the weighted sum over routes, computed in float32.

    Args:
        routed_scaling_factor: factor of the sum.

    Raises:
        ValueError: the factor is not finite or not above 0.
    """

    routed_scaling_factor: float = 1.0

    def __post_init__(self) -> None:
        factor = self.routed_scaling_factor
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"routed_scaling_factor must be finite and above 0, got {factor!r}")
