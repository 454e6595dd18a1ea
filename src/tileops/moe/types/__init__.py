"""Values that the moe ops take as parameters: layouts of grouped rows, and the epilogue of a layer.

Values are immutable and hashable, since they enter call specs.
"""

from tileops.moe.types.layouts import (
    ContiguousLayoutSpec,
    ContiguousMetadata,
    ContiguousPacking,
    MaskedLayoutSpec,
)

__all__ = [
    "ContiguousLayoutSpec",
    "ContiguousMetadata",
    "ContiguousPacking",
    "MaskedLayoutSpec",
]
