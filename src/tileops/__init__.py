"""TileOPs: operators for large language models, each described by a spec."""

from __future__ import annotations

FAMILIES: tuple[str, ...] = ("norm", "elementwise", "reduction", "gemm", "attention")
"""The public modules that hold op classes, one folder each."""
